"""A checkpoint of Ultralytics to ONNX by its own exporter. Run as `python from_ultralytics.py REQUEST.json`."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any, Dict, List, Tuple

LAYERS = ("torch.nn.modules.", "ultralytics.nn.modules.", "ultralytics.nn.tasks.")


def main(request: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], List[Any]]:
    # It would ask the network for releases, install packages, and keep settings in the user's folder.
    os.environ.update(YOLO_OFFLINE="true", YOLO_AUTOINSTALL="false", YOLO_CONFIG_DIR=os.getcwd())
    import onnx
    import torch
    from from_pytorch import named

    if not request["trust"]:
        require_network(request["source"], torch)
    import ultralytics

    # The exporter writes beside the checkpoint: this folder is a temporary one.
    checkpoint = ultralytics.YOLO(shutil.copy(request["source"], "model.pt"))
    asked = next(iter(request["shapes"].values()), None)
    if asked and len(asked) != 4:
        raise ValueError(f"--shapes {'x'.join(map(str, asked))}: a checkpoint takes pictures, as 1x3x320x320")
    batch, _, *picture = asked or [1, 3, checkpoint.overrides.get("imgsz", 640)]
    torch.set_grad_enabled(False)
    written = checkpoint.export(
        format="onnx",
        imgsz=picture if len(picture) == 2 else picture[0],
        batch=batch,
        opset=request["opset"],
        simplify=False,
        device="cpu",
        verbose=False,
    )
    shutil.move(written, request["model"])
    graph = onnx.load(request["model"], load_external_data=False).graph
    name, dims = graph.input[0].name, [dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim]
    if asked and dims != asked:
        raise ValueError(f"its exporter makes {'x'.join(map(str, dims))} of these --shapes: give that")
    feed = torch.rand(dims, generator=torch.Generator().manual_seed(request["seed"]))
    given = named(checkpoint.model.cpu().float().eval()(feed), torch)
    outputs = []
    for value in graph.output:
        # In evaluation the network also gives what only its loss reads.
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        outputs.append(next(tensor.numpy() for _, tensor in given if list(tensor.shape) == shape))
    about = {"framework": f"ultralytics {ultralytics.__version__}", "exporter": "its own exporter"}
    return {**about, "outputs": [value.name for value in graph.output]}, {name: feed.numpy()}, outputs


class NotCalled(type):
    """A class in place of one of the file's, which the file may make an object of, but not call."""

    def __call__(cls, *args: Any) -> Any:
        raise ValueError(f"it calls {cls.__name__}")


def require_network(path: str, torch: Any) -> None:
    """Raises ValueError if loading the file would do more than make layers of PyTorch and Ultralytics, and their weights."""
    load = torch.serialization
    try:
        layers = [name for name in load.get_unsafe_globals_in_checkpoint(path) if name.startswith(LAYERS)]
        with load.safe_globals([(NotCalled(name, (), {}), name) for name in layers]):
            torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:
        called = re.search(r"(?:GLOBAL|calls) (\S+)", str(e))
        raise ValueError(f"its pickle holds more than a network: {called[1] if called else e}") from e


if __name__ == "__main__":
    # Beside this file, not in edgedla, which this interpreter may lack.
    from answering import answer

    answer(main)
