"""Edits one board in the text of boards.yaml: everything else stays as the user wrote it, comments and order included."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Tuple

#: (start, end, replacement), in characters of the text.
Edit = Tuple[int, int, str]
HEAD = "# The boards of `edgedla --board NAME`.\nboards:\n"


def with_board(text: str, name: str, values: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """The text with the board: a new one is appended; in an existing one only values that differ are changed.

    Args:
        text: the text of a valid inventory, or "".
        values: keys and values of the entry, including "host". before: the present ones; empty for a new board.
    """
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return text + HEAD + _block(name, values, "  ")
    boards = root.value[0][1]
    entry = next((value for key, value in boards.value if key.value == name), None)
    if entry is not None:
        return _edited(text, _changes(text, entry, values, before))
    if not boards.value:
        # `boards: {}`
        start, end = boards.start_mark.index, boards.end_mark.index
        others = (text[:start].rstrip(" ") + text[end:]).rstrip("\n")
        return f"{others}\n{_block(name, values, '  ')}"
    if boards.flow_style:
        comma = "" if text[: boards.end_mark.index - 1].rstrip().endswith(",") else ", "
        return _edited(text, [(boards.end_mark.index - 1,) * 2 + (f"{comma}{json.dumps(name)}: {_flow(values)}",)])
    indent = text.splitlines()[boards.start_mark.line][: boards.start_mark.column]
    return (text if text.endswith("\n") else text + "\n") + _block(name, values, indent)


def _changes(text: str, entry: Any, values: Mapping[str, Any], before: Mapping[str, Any]) -> List[Edit]:
    """One edit per value, so that comments beside the values stay."""
    if entry.flow_style:
        return [(entry.start_mark.index, entry.end_mark.index, _flow(values))]
    pairs: Dict[str, Tuple[Any, Any]] = {key.value: (key, value) for key, value in entry.value}
    edits: List[Edit] = []
    for word, (key, value) in pairs.items():
        line, end = text.rfind("\n", 0, key.start_mark.index) + 1, _end(text, value)
        if word not in values:
            edits.append((line, _line_end(text, end) + 1, ""))
        elif values[word] != before.get(word):
            edits.append((text.index(":", key.end_mark.index) + 1, end, f" {json.dumps(values[word])}"))
    key, value = pairs["host"]
    indent, entry_end = " " * key.start_mark.column, _line_end(text, _end(text, value))
    new = [f"\n{indent}{word}: {json.dumps(v)}" for word, v in values.items() if word not in pairs]
    return [*edits, (entry_end, entry_end, "".join(new))]


def _edited(text: str, edits: List[Edit]) -> str:
    for start, end, instead in sorted(edits, reverse=True):
        text = text[:start] + instead + text[end:]
    return text


def _end(text: str, node: Any) -> int:
    """The position after the last character of a value; PyYAML counts comments after a block as part of it."""
    if isinstance(node.value, list) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    return len(text[: node.end_mark.index].rstrip("\n "))


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _block(name: str, values: Mapping[str, Any], indent: str) -> str:
    lines = [f"{indent}{_key(name)}:", *(f"{indent}  {word}: {json.dumps(value)}" for word, value in values.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """A board's name as a YAML key: `n` or `7` would not be text without quotes."""
    from edgedla.errors import RuleError
    from edgedla.io.strict_yaml import loads

    try:
        return name if name in loads(f"{name}: 1", "") else json.dumps(name)
    except RuleError:
        return json.dumps(name)


def _flow(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values))
