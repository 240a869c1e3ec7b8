"""Detects the form of a model file or folder from its name and first bytes; loads nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple, Optional, Tuple, Union


class Kind(NamedTuple):
    """A form of a model.

    Attributes:
        title: for messages. framework: the package required. program: file below frameworks/ that converts it.
        runs_code: loading it runs code in the file.
        needs_shapes: the file does not state the sizes of its inputs.
    """

    name: str
    title: str
    framework: str
    program: str
    runs_code: bool = False
    needs_shapes: bool = False


#: To add a form: a row here, its detection below, and its branch in the framework's program.
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("pt2", "a PyTorch program (torch.export)", "torch", "from_pytorch.py"),
        Kind("torchscript", "a TorchScript module", "torch", "from_pytorch.py", needs_shapes=True),
        Kind("pickle", "a pickled PyTorch module", "torch", "from_pytorch.py", runs_code=True, needs_shapes=True),
        Kind("ultralytics", "a checkpoint of Ultralytics", "ultralytics", "from_ultralytics.py"),
        Kind("savedmodel", "a TensorFlow SavedModel", "tf2onnx", "from_tensorflow.py"),
        Kind("graphdef", "a frozen TensorFlow graph", "tf2onnx", "from_tensorflow.py"),
        Kind("keras", "a Keras model", "tf2onnx", "from_tensorflow.py"),
        Kind("h5", "a Keras model in HDF5", "tf2onnx", "from_tensorflow.py", runs_code=True),
        Kind("tflite", "a TFLite model", "tf2onnx", "from_tensorflow.py"),
        Kind("paddle", "a Paddle model", "paddle2onnx", "from_paddle.py"),
    )
}
_ENDINGS: Tuple[Tuple[str, str], ...] = (
    (".pt2", "pt2"),
    (".keras", "keras"),
    (".h5", "h5"),
    (".hdf5", "h5"),
    (".tflite", "tflite"),
    (".pdmodel", "paddle"),
)
_TORCH_ENDINGS = (".pt", ".pth", ".ts", ".torchscript")


def kind_of(source: Union[str, Path]) -> Optional[Kind]:
    """The form of a model of another framework; None for ONNX and everything else."""
    path = Path(source)
    if path.is_dir():
        return KINDS["savedmodel"] if (path / "saved_model.pb").is_file() else None
    name = path.name.lower()
    if name.endswith(".json"):
        # From Paddle 3 on, a program is a .json file; without weights beside it, it is some other document.
        return KINDS["paddle"] if path.with_suffix(".pdiparams").is_file() else None
    if name.endswith(".pb"):
        # SavedModels and ONNX files may have this ending too.
        return KINDS["graphdef"] if path.is_file() and _is_graph(path) else None
    if name.endswith(_TORCH_ENDINGS):
        return KINDS[_torch_kind(path)] if path.is_file() else None
    return next((KINDS[kind] for ending, kind in _ENDINGS if name.endswith(ending)), None)


#: First bytes of the forms; a ZIP archive also needs its end, which holds its table of contents. Formats: PKWARE APPNOTE
#: 4.3, pickle protocol 2 and newer, HDF5 specification II.A, TFLite's schema (file_identifier).
_ZIP, _PICKLE, _HDF5, _TFLITE = b"PK\x03\x04", b"\x80", b"\x89HDF\r\n\x1a\n", b"TFL3"
#: The module of a checkpoint's network, behind a few numbers at the pickle's beginning.
_ULTRALYTICS, _PICKLE_BEGIN = b"ultralytics.nn.tasks", 4096
_BEGINNINGS: Mapping[str, Tuple[bytes, ...]] = {
    "pt2": (_ZIP,),
    "torchscript": (_ZIP,),
    "pickle": (_ZIP, _PICKLE),
    "keras": (_ZIP, _HDF5),
    "h5": (_HDF5,),
}


def _is_graph(path: Path) -> bool:
    """True if the file begins with a node: its name, then its operator (graph.proto, node_def.proto)."""
    with open(path, "rb") as f:
        begin = f.read(1024)
    try:
        at = _after_length(begin, 0)
        length = begin[at + 1]
        return begin[at : at + 1] == _FIELD_1 and length < 0x80 and begin[at + 2 + length : at + 3 + length] == _FIELD_2
    except IndexError:
        return False


#: Protocol Buffers tags of fields 1 and 2, of type bytes.
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"


def _after_length(data: bytes, at: int) -> int:
    """The start of field 1's content; raises IndexError if there is no such field."""
    if data[at] != _FIELD_1[0]:
        raise IndexError(at)
    at += 1
    while data[at] >= 0x80:
        at += 1
    return at + 1


def damage_of(path: Path, kind: Kind) -> Optional[str]:
    """The damage at a file's beginning or end; None if it looks like its form, or if the form has no mark."""
    import zipfile

    if not path.is_file():
        return None
    with open(path, "rb") as f:
        begin = f.read(16)
    if not begin:
        return "the file is empty"
    if begin.startswith(_ZIP) and kind.name in _BEGINNINGS and not zipfile.is_zipfile(path):
        return "the file is cut off: a ZIP archive without its end"
    if kind.name == "tflite":
        return None if begin[4:8] == _TFLITE else f"bytes 4 to 7 are {begin[4:8]!r}, not {_TFLITE!r}"
    beginnings = _BEGINNINGS.get(kind.name)
    if beginnings is None or begin.startswith(beginnings):
        return None
    return f"the file begins with {begin[:4]!r}, not with {' or '.join(repr(b[:4]) for b in beginnings)}"


def _torch_kind(path: Path) -> str:
    """The kind of a PyTorch file: a TorchScript archive has code/, an exported program archive_format; the rest are pickles."""
    import zipfile
    import zlib

    if not zipfile.is_zipfile(path):
        return "pickle"
    try:
        with zipfile.ZipFile(path) as archive:
            inner = {n.partition("/")[2]: n for n in archive.namelist()}
            begin = archive.open(inner["data.pkl"]).read(_PICKLE_BEGIN) if "data.pkl" in inner else b""
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        # Damaged: ValueError by a name, RuntimeError by flags that ask for a password or an unknown method, the rest by the data.
        return "pickle"
    if "archive_format" in inner:
        return "pt2"
    if any(n.startswith("code/") for n in inner):
        return "torchscript"
    return "ultralytics" if _ULTRALYTICS in begin else "pickle"
