"""`edgedla hub`: recipes that put published networks into few DLA loadables; the file is docs/howto/recipes.yaml."""

from __future__ import annotations

import json
from typing import Any, List, Mapping, Optional, Tuple

import click

from edgedla.cli.options import output_options
from edgedla.cli.output import deliver, destinations
from edgedla.io.documents import header

FORMATS = ("text", "json")


@click.group()
def hub() -> None:
    """Recipes for published networks: the commands that put each into few DLA loadables. They hold no weights."""


def recipes() -> Mapping[str, Any]:
    """Recipes by name. Raises RuleError: the installation has no such file, or it is damaged."""
    from edgedla.io.data import docs_dir
    from edgedla.io.strict_yaml import load

    read: Mapping[str, Any] = load(docs_dir() / "howto" / "recipes.yaml")["recipes"]
    return read


@hub.command("list")
@output_options(*FORMATS)
def list_recipes(output_format: Optional[str], output: Tuple[str, ...]) -> None:
    """List the recipes: loadables before and after, the predicted times of a frame, and what INT8 loses where it was measured."""
    from edgedla.reports.text import print_lines, table_lines

    where, every = destinations(output_format, output, FORMATS), recipes()
    rows: List[List[str]] = [["RECIPE", "TASK", "TARGET", "LOADABLES", "MS", "GPU ALONE", "INT8 LOSES"]]
    for name, r in every.items():
        f = r["figures"]
        loadables = f"{f['loadables_before']} to {f['loadables']}"
        rows.append([name, r["task"], r["target"], loadables, f"{f['ms']:g}", f"{f['gpu_ms']:g}", r["int8_loss"]])
    deliver(where, lambda form, tty: _json(every) if form == "json" else print_lines(table_lines(rows, tty), tty))


@hub.command("get")
@click.argument("name")
@output_options(*FORMATS)
def get_recipe(name: str, output_format: Optional[str], output: Tuple[str, ...]) -> None:
    """Print the recipe NAME: its commands, and what they give."""
    from edgedla.vocabulary import one_of

    where, every = destinations(output_format, output, FORMATS), recipes()
    name = one_of("recipe", name, tuple(every), "NAME")
    r = every[name]
    f, source = r["figures"], r["source"]
    lines = (
        f"# {source}: {r['task']}, {r['input']}, on {r['target']}, {r['precision']}",
        "# Needs PyTorch and torchvision: pip install 'edgedla[torch]' torchvision",
        f"# {f['loadables_before']} to {f['loadables']} loadables; layers on the GPU: {f['layers_gpu']}",
        f"# Predicted: {f['ms']:g} ms per frame, the GPU alone {f['gpu_ms']:g} ms. INT8 loses: {r['int8_loss']}",
        *r["commands"],
        f"# The weights are random. For yours, put its ONNX file or package.module:factory in place of {source}.",
    )
    deliver(where, lambda form, _: _json({name: r}) if form == "json" else "\n".join(lines))


def _json(chosen: Mapping[str, Any]) -> str:
    rows = [{"name": name, **recipe} for name, recipe in chosen.items()]
    return json.dumps({**header("edgedla.recipes"), "recipes": rows}, indent=1)
