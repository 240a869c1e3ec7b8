"""Documents and bytes that somebody changed."""

from __future__ import annotations

import copy
import random
from typing import Any, List, Sequence, Tuple

#: What stands in place of a value of a document.
VALUES: Tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    1e308,
    -1e308,
    2**31,
    2**63,
    2**70,
    "",
    " ",
    "x",
    "NaN",
    "\x1b[2J",
    "a\nb",
    "\u2028",
    "\ud800",
    "../../x",
    "/etc/passwd",
    "x" * 5000,
    "=1+1",
    "<script>",
    [],
    {},
    [None],
    {"a": 1},
    [[[[1]]]],
    ["x"] * 50,
)
WORDS = ("", "zz", "__class__", "\x1b[31m", "document", "x" * 300)


def changed(document: Any, rng: random.Random) -> Any:
    """A copy in which one to three values are others, gone, doubled, or under other keys."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        inside = [n for n in _nodes(document) if n]
        if not inside:
            break
        node = rng.choice(inside)
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        how = rng.random()
        if how < 0.2:
            del node[key]
        elif how < 0.3 and isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        elif how < 0.4 and isinstance(node, dict):
            node[rng.choice(WORDS)] = copy.deepcopy(node[key])
        else:
            node[key] = copy.deepcopy(rng.choice(VALUES))
    return document


def _nodes(value: Any) -> List[Any]:
    below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return ([value] if isinstance(value, (dict, list)) else []) + [n for v in below for n in _nodes(v)]


def noise(rng: random.Random, sizes: Sequence[int] = (0, 1, 7, 300, 5000)) -> bytes:
    """Random bytes, of one of these sizes."""
    return bytes(rng.randrange(256) for _ in range(rng.choice(sizes)))


def bytes_changed(data: bytes, rng: random.Random) -> bytes:
    """Some bytes are others, missing or doubled, or the end is missing."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(out)) if out else 0
        how = rng.random()
        if how < 0.4 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif how < 0.6:
            del out[at : at + rng.choice((1, 4, 100))]
        elif how < 0.8:
            out[at:at] = noise(rng, (1, 4, 100))
        else:
            del out[at:]
    return bytes(out)
