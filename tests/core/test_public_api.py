"""The public names and their signatures, as a golden file: a change of the API is seen in the difference."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any, Callable, List

import pytest

import edgedla
from edgedla.errors import EdgedlaError, UsageError
from edgedla.importers import load_onnx
from edgedla.text.printable import Fields

ROOT = Path(__file__).resolve().parents[2]
DETECTOR = ROOT / "examples/00_shapes_detector/shapes_detector.onnx"


def signature(name: str) -> List[str]:
    """One line a function, one a public method or field of a class."""
    value: Any = getattr(edgedla, name)
    if inspect.isclass(value) and issubclass(value, BaseException):
        return [f"{name}({value.__mro__[1].__name__}) exit code {getattr(value, 'exit_code', None)}"]
    if not inspect.isclass(value):
        return [f"{name}{inspect.signature(value)}"]
    lines = [f"class {name}"]
    if dataclasses.is_dataclass(value):
        lines += [f"  {f.name}: {f.type}" for f in dataclasses.fields(value)]
    of_fields = {"to_dict": value.to_dict} if issubclass(value, Fields) else {}
    for attribute, member in sorted({**of_fields, **vars(value)}.items()):
        if attribute.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        lines.append(f"  .{attribute}" + (str(inspect.signature(member)) if inspect.isfunction(member) else ""))
    return lines


@pytest.mark.skipif(sys.version_info < (3, 10), reason="older Pythons print some annotations otherwise")
def test_public_names_and_signatures(golden: Callable[[str, str], None]) -> None:
    lines = [line for name in edgedla.__all__ if name != "__version__" for line in signature(name)]
    golden("public_api.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", sorted(n for n in edgedla.__all__ if n != "__version__"))
def test_every_public_name_has_a_docstring(name: str) -> None:
    text = inspect.getdoc(getattr(edgedla, name))
    assert text
    assert not text.startswith(f"{name}("), "a dataclass without a docstring of its own"


def test_every_error_is_public() -> None:
    for path in sorted((ROOT / "edgedla").rglob("*.py")):
        if path.parent.name == "torch" and importlib.util.find_spec("torch") is None:
            continue
        if "Error)" in path.read_text(encoding="utf-8") and path.stem != "__main__":
            # A class is known as a subclass once its module is imported.
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").replace(".__init__", "")
            importlib.import_module(name)
    tree: List[Any] = [EdgedlaError]
    for error in tree:
        tree += error.__subclasses__()
    outside = {e.__name__ for e in tree if not e.__name__.startswith("_")} - set(edgedla.__all__)
    assert outside == set()


def test_a_layer_graph_is_accepted_in_place_of_a_model() -> None:
    graph = load_onnx(DETECTOR, trt="10.3")
    report = edgedla.check(graph, target="agx-orin-64gb")
    assert report.totals == edgedla.check(DETECTOR, target="agx-orin-64gb").totals
    assert edgedla.place(graph, target="agx-orin-64gb").models[0].name == graph.name
    with pytest.raises(UsageError, match="a LayerGraph cannot be built"):
        edgedla.build(graph, "out", edgedla.BuildRequest(target="agx-orin-64gb"))


def test_a_graph_of_another_parser_is_refused() -> None:
    graph = load_onnx(DETECTOR, trt="10.3")
    with pytest.raises(UsageError, match=r"has the layers of TensorRT 10\.3's parser"):
        edgedla.check(graph, target="agx-xavier-32gb")
    with pytest.raises(UsageError, match="are fixed"):
        edgedla.check(graph, target="agx-orin-64gb", batch=2)


def test_a_pipeline_file_may_be_a_path(tmp_path: Path) -> None:
    with pytest.raises(edgedla.DocumentError, match="cannot be read"), edgedla.open_pipeline(tmp_path / "none.yaml"):
        pass


def test_request_words_are_case_insensitive_and_checked() -> None:
    request = edgedla.BuildRequest(target="orin", precision="INT8", mode="Standalone", backend="HOST")
    assert (request.precision, request.mode, request.backend) == ("int8", "standalone", "host")
    with pytest.raises(UsageError, match="did you mean hybrid"):
        edgedla.BuildRequest(target="orin", mode="hybird")
