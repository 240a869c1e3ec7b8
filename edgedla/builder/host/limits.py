"""Size limits for simulated networks. Real networks have hundreds of layers, a few thousand at most."""

from __future__ import annotations

from edgedla.errors import ModelTooLarge
from edgedla.graph import LayerGraph

#: ONNX Runtime's time to open a model grows faster than its nodes, and faster still with its outputs: 50,000 layers took 40 CPU
#: seconds in a chain and more than 120 with as many outputs; 6,000 take 3 and 1,000 outputs less (tests/hostile/attack_sizes.py).
MOST_LAYERS, MOST_OUTPUTS = 6_000, 1_000
#: Most layers for INT8 ranges of random input, which take some 8 ms per tensor.
MOST_MEASURED = 2_000


def require_simulable(graph: LayerGraph) -> None:
    """Raises:
    ModelTooLarge: beyond MOST_LAYERS or MOST_OUTPUTS.
    """
    hint = "`--backend trtexec` writes the command for a Jetson"
    for count, most, what in ((len(graph.layers), MOST_LAYERS, "layers"), (len(graph.outputs), MOST_OUTPUTS, "outputs")):
        if count > most:
            raise ModelTooLarge(
                f"{count} {what} are too many to simulate", where=graph.name, allowed=f"at most {most}", hint=hint
            )


def require_measurable(graph: LayerGraph) -> None:
    """Limits measurement on random input. A user who gives samples has accepted their run time.

    Raises:
        ModelTooLarge: more than MOST_MEASURED layers.
    """
    if len(graph.layers) > MOST_MEASURED:
        raise ModelTooLarge(
            f"{len(graph.layers)} layers are too many to measure INT8 ranges on random input; such ranges mean nothing",
            where=graph.name,
            allowed=f"at most {MOST_MEASURED}",
            hint="give samples by --calib-data, or a cache by --calib",
        )
