"""`edgedla hub`: recipes that put published networks into few DLA loadables; the file is docs/howto/recipes.yaml."""

from __future__ import annotations

from typing import Any, List, Mapping

import click

from edgedla.cli.output import deliver, echo


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
def list_recipes() -> None:
    """List the recipes: loadables before and after, the predicted times of a frame, and what INT8 loses where it was measured."""
    from edgedla.reports.text import print_lines, table_lines

    rows: List[List[str]] = [["RECIPE", "TASK", "TARGET", "LOADABLES", "MS", "GPU ALONE", "INT8 LOSES"]]
    for name, r in recipes().items():
        f = r["figures"]
        loadables = f"{f['loadables_before']} to {f['loadables']}"
        rows.append([name, r["task"], r["target"], loadables, f"{f['ms']:g}", f"{f['gpu_ms']:g}", r["int8_loss"]])
    deliver([("text", "-")], lambda _, terminal: print_lines(table_lines(rows, terminal), terminal))


@hub.command("get")
@click.argument("name")
def get_recipe(name: str) -> None:
    """Print the recipe NAME: its commands, and what they give."""
    from edgedla.vocabulary import one_of

    every = recipes()
    r = every[one_of("recipe", name, tuple(every), "NAME")]
    f, source = r["figures"], r["source"]
    echo(f"# {source}: {r['task']}, {r['input']}, on {r['target']}, {r['precision']}")
    echo(f"# {f['loadables_before']} to {f['loadables']} loadables; layers on the GPU: {f['layers_gpu']}")
    echo(f"# Predicted: {f['ms']:g} ms per frame, the GPU alone {f['gpu_ms']:g} ms. INT8 loses: {r['int8_loss']}")
    echo("\n".join(r["commands"]))
    echo(f"# The weights are random. For yours, put its ONNX file or package.module:factory in place of {source}.")
