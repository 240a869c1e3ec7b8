"""What a file or folder holds, told from its name and its first bytes; nothing of it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple, Optional, Tuple, Union


class Kind(NamedTuple):
    """A form of a model.

    Attributes:
        title: for messages. framework: what has to be installed. program: file below frameworks/ that converts it.
        runs_code: loading it runs code that stands in the file.
        needs_shapes: the file does not say the sizes of its inputs.
    """

    name: str
    title: str
    framework: str
    program: str
    runs_code: bool = False
    needs_shapes: bool = False


#: To add a form: a row here, how it is told below, and its branch in the program of its framework.
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("pt2", "a PyTorch program (torch.export)", "torch", "from_pytorch.py"),
        Kind("torchscript", "a TorchScript module", "torch", "from_pytorch.py", needs_shapes=True),
        Kind("pickle", "a pickled PyTorch module", "torch", "from_pytorch.py", runs_code=True, needs_shapes=True),
        Kind("savedmodel", "a TensorFlow SavedModel", "tf2onnx", "from_tensorflow.py"),
        Kind("keras", "a Keras model", "tf2onnx", "from_tensorflow.py"),
        Kind("h5", "a Keras model in HDF5", "tf2onnx", "from_tensorflow.py", runs_code=True),
        Kind("tflite", "a TFLite model", "tf2onnx", "from_tensorflow.py"),
        Kind("paddle", "a Paddle model", "paddle2onnx", "from_paddle.py"),
    )
}
_ENDINGS: Tuple[Tuple[str, str], ...] = (
    (".pt2", "pt2"), (".keras", "keras"), (".h5", "h5"), (".hdf5", "h5"), (".tflite", "tflite"), (".pdmodel", "paddle"),
)  # fmt: skip
_TORCH_ENDINGS = (".pt", ".pth", ".ts", ".torchscript")


def kind_of(source: Union[str, Path]) -> Optional[Kind]:
    """The form of a model of another framework; None for ONNX and for everything else."""
    path = Path(source)
    if path.is_dir():
        return KINDS["savedmodel"] if (path / "saved_model.pb").is_file() else None
    name = path.name.lower()
    if name.endswith(".json"):
        # From Paddle 3 on a program is a .json; without its weights beside it, it is any other document.
        return KINDS["paddle"] if path.with_suffix(".pdiparams").is_file() else None
    if name.endswith(_TORCH_ENDINGS):
        return KINDS[_torch_kind(path)] if path.is_file() else None
    return next((KINDS[kind] for ending, kind in _ENDINGS if name.endswith(ending)), None)


def _torch_kind(path: Path) -> str:
    """A TorchScript archive holds code/; an exported program its archive_format; the rest is a pickle."""
    import zipfile

    if not zipfile.is_zipfile(path):
        return "pickle"
    try:
        with zipfile.ZipFile(path) as archive:
            inner = [n.partition("/")[2] for n in archive.namelist()]
    except (OSError, zipfile.BadZipFile):
        return "pickle"
    if "archive_format" in inner:
        return "pt2"
    return "torchscript" if any(n.startswith("code/") for n in inner) else "pickle"
