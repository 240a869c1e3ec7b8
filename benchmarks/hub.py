"""The recipes of `edgedla hub`: runs their commands, writes what they give into the recipes' file, and its page.

python benchmarks/hub.py                     runs every recipe, writes figures and page; some minutes a recipe; needs torchvision
python benchmarks/hub.py resnet18            this recipe alone
python benchmarks/hub.py --page              writes docs/howto/recipes.md from the file
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Mapping

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import edgedla  # noqa: E402
from edgedla.cli.deploy.hub import recipes  # noqa: E402
from edgedla.errors import UsageError  # noqa: E402
from edgedla.io.files import write_atomic  # noqa: E402
from edgedla.io.strict_yaml import loads  # noqa: E402
from edgedla.regions import CheckReport  # noqa: E402
from edgedla.vocabulary import one_of  # noqa: E402

FILE = ROOT / "docs" / "howto" / "recipes.yaml"
PAGE = FILE.with_suffix(".md")
_HEAD = """---
description: Published networks and the commands that put each into few DLA loadables, with predicted times.
verbs: hub fix
---

# Recipes for published networks

`edgedla hub get NAME` prints the commands of a recipe. They need PyTorch and torchvision: `pip install 'edgedla[torch]' torchvision`. There
are no weights in them: give your own module or ONNX file in place of the library's; an ONNX file needs neither of the two. Times are
predicted, per frame; no board has measured them. `GPU alone` is the same network without a DLA.

| recipe | task | input | module | loadables | layers on the GPU | ms | GPU alone, ms | INT8 loses |
|---|---|---|---|---|---|---|---|---|
"""
_TAIL = """
A test runs the commands of every recipe and compares what they give with this table.
"""


def page(every: Mapping[str, Any]) -> str:
    rows = []
    for name, r in every.items():
        f = r["figures"]
        loadables = f"{f['loadables_before']} to {f['loadables']}"
        cells = (
            name,
            r["task"],
            r["input"],
            f"{r['target']}, {r['precision']}",
            loadables,
            f["layers_gpu"],
            f"{f['ms']:g}",
            f"{f['gpu_ms']:g}",
            r["int8_loss"],
        )
        rows.append(f"| {' | '.join(map(str, cells))} |\n")
    return _HEAD + "".join(rows) + _TAIL


def checked(model: Any, recipe: Mapping[str, Any]) -> CheckReport:
    return edgedla.check(model, target=recipe["target"], precision=recipe["precision"], cost=True)


def figures(recipe: Mapping[str, Any], folder: Path) -> Dict[str, Any]:
    """Runs the commands in `folder`. Returns what `figures` of the recipe should say."""
    from edgedla.torch.factory import onnx_of_factory

    for command in recipe["commands"]:
        verb, *arguments = shlex.split(command)
        assert verb == "edgedla", command
        subprocess.run([sys.executable, "-m", "edgedla", *arguments], cwd=folder, check=True, capture_output=True)
    before, after = checked(onnx_of_factory(recipe["source"]), recipe), checked(folder / recipe["result"], recipe)
    axis = after.to_dict()["worth"]["headlines"][0]["axes"][0]
    assert axis["name"] == "time", axis
    return {
        "loadables_before": before.totals.regions,
        "loadables": after.totals.regions,
        "layers_gpu": after.totals.layers_gpu,
        "ms": float(f"{axis['value'] / 1000:.3g}"),
        "gpu_ms": float(f"{axis['base'] / 1000:.3g}"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="recipes; default: all")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    given = parser.parse_args()
    text = FILE.read_text(encoding="utf-8")
    every = recipes()
    try:
        for name in given.names:
            one_of("recipe", name, tuple(every), "NAME")
    except UsageError as e:
        raise SystemExit(str(e)) from e
    for name in () if given.page else given.names or every:
        with tempfile.TemporaryDirectory() as folder:
            found = figures(every[name], Path(folder))
        print(name, found, flush=True)
        line = ", ".join(f"{key}: {value}" for key, value in found.items())
        text = re.sub(rf"(?ms)^(  {re.escape(name)}:\n.*?^    figures: )[^\n]*", rf"\g<1>{{{line}}}", text, count=1)
        write_atomic(FILE, text)
    write_atomic(PAGE, page(loads(text, str(FILE))["recipes"]))


if __name__ == "__main__":
    main()
