"""What `fix --embed-preprocess` writes into a model's metadata about its input; calibration, build and run read it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Optional, Tuple

from edgedla.errors import ModelError

#: Key of the model's metadata.
METADATA = "edgedla.preprocess"


@dataclass(frozen=True)
class EmbeddedPreprocess:
    """Preprocessing inside the model: a pixel p becomes (p - mean) / std.

    Attributes:
        input: name of the network input that takes pixels.
        colour: order of its channels, "rgb" or "bgr".
        dtype: NumPy's name of its element type.
        scale: INT8 scale whose steps are whole pixel values; None where calibration decides.
    """

    input: str
    mean: float
    std: float
    colour: str
    dtype: str
    scale: Optional[float] = None

    def to_text(self) -> str:
        return json.dumps({**asdict(self), "mean": [self.mean], "std": [self.std]})

    @property
    def three(self) -> Tuple[Tuple[float, ...], Tuple[float, ...]]:
        """(mean, std) of three channels."""
        return (self.mean,) * 3, (self.std,) * 3


def embedded_preprocess(model: Any, where: str = "") -> Optional[EmbeddedPreprocess]:
    """Reads the entry of an onnx.ModelProto's metadata; None if there is none.

    Raises:
        ModelError: the entry is not what `fix` writes.
    """
    text = {p.key: p.value for p in model.metadata_props}.get(METADATA)
    if not text:
        return None
    try:
        entry = json.loads(text)
        (mean,), (std,) = entry["mean"], entry["std"]
        scale = entry.get("scale")
        embedded = EmbeddedPreprocess(
            str(entry["input"]),
            float(mean),
            float(std),
            str(entry["colour"]),
            str(entry["dtype"]),
            None if scale is None else float(scale),
        )
        if embedded.colour not in ("rgb", "bgr") or not math.isfinite(embedded.mean) or not embedded.std > 0:
            raise ValueError(text)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as e:
        raise ModelError(
            f"the metadata {METADATA} is damaged: {e}", where=where, hint="run `edgedla fix --embed-preprocess` again"
        ) from e
    return embedded
