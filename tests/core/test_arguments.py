"""Python arguments of a wrong type end in an error that says which one, what it is, and what is allowed."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import pytest

import edgedla
from edgedla.arguments import fits, in_words, plain
from edgedla.errors import EdgedlaError, UsageError
from tests.models import node, onnx_model

MODEL = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
ODD: Tuple[Any, ...] = (5, -1, 1.5, "x", b"x", [1], ["x"], {}, {"a": 1}, {1: 2}, object(), True, float("nan"), [None])

#: What is called, and what it cannot do without.
DOORS: Dict[str, Tuple[Callable[..., Any], Dict[str, Any]]] = {
    "check": (edgedla.check, {"model": MODEL, "target": "orin-nx-16gb"}),
    "predict": (edgedla.predict, {"models": MODEL, "target": "orin-nx-16gb"}),
    "fix": (edgedla.fix, {"model": MODEL, "target": "orin-nx-16gb", "prove": False}),
    "PlacementRequest": (edgedla.PlacementRequest, {"target": "orin-nx-16gb"}),
    "DeployRequest": (edgedla.DeployRequest, {"target": "orin-nx-16gb"}),
    "QuantizeRequest": (edgedla.QuantizeRequest, {}),
    "BuildRequest": (edgedla.BuildRequest, {}),
    "PlanOptions": (edgedla.PlanOptions, {}),
    "BenchRequest": (edgedla.BenchRequest, {"profile": True, "onnx": MODEL}),
    "BenchOptions": (edgedla.BenchOptions, {}),
    "Limits": (edgedla.Limits, {}),
}
#: Models have errors of their own.
ARGUMENTS = [(d, p) for d in DOORS for p in inspect.signature(DOORS[d][0]).parameters if p not in ("model", "models")]


@pytest.mark.once
@pytest.mark.parametrize(("door", "argument"), ARGUMENTS)
def test_an_argument_of_another_type_raises_no_raw_error(door: str, argument: str) -> None:
    call, needed = DOORS[door]
    refused: List[Any] = []
    for value in ODD:
        try:
            call(**{**needed, argument: value})
        except EdgedlaError:
            refused.append(value)
    assert refused, "no value of any type is refused"


FUNCTIONS = sorted(n for n in edgedla.__all__ if inspect.isfunction(getattr(edgedla, n)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_holds_its_arguments_against_their_annotations(name: str) -> None:
    """Before it does anything: what else it is given is of the right type and no more."""
    call = getattr(edgedla, name)
    parameters = {n: p for n, p in inspect.signature(call).parameters.items() if p.kind is not p.VAR_KEYWORD}
    needed = {n: right(n, str(p.annotation)) for n, p in parameters.items() if p.default is p.empty}
    for argument in parameters:
        if argument in ANYTHING:
            continue
        with pytest.raises(UsageError) as caught:
            call(**{**needed, argument: object()})
        assert caught.value.where == argument


#: A model may be a ModelProto or a network of a framework, which nothing here imports.
ANYTHING = ("model", "models", "source", "example_inputs")


def right(argument: str, annotation: str) -> Any:
    """A value of the right type."""
    requests = {
        "BuildRequest": lambda: edgedla.BuildRequest("orin-nx-16gb"),
        "PlacementRequest": lambda: edgedla.PlacementRequest("orin-nx-16gb"),
        "Placement": lambda: edgedla.place(MODEL, target="orin-nx-16gb"),
        "Sequence[Union[str, Platform]]": lambda: [edgedla.platform_for("orin-nx-16gb")],
        "Sequence[Any]": lambda: [MODEL],
    }
    return requests.get(annotation, lambda: "orin-nx-16gb" if argument == "target" else MODEL)()


@pytest.mark.parametrize(
    ("call", "where", "allowed"),
    [
        (lambda: edgedla.PlacementRequest("orin-nx-16gb", devices=[1]), "devices", "text, a list of texts or None"),  # type: ignore[list-item]
        (lambda: edgedla.DeployRequest("orin-nx-16gb", data=5), "data", "text, a path or None"),  # type: ignore[arg-type]
        (lambda: edgedla.fix(MODEL, target="orin-nx-16gb", data=5), "data", "text, a path or None"),  # type: ignore[arg-type]
        (lambda: edgedla.check(MODEL, target=5), "target", "text or None"),  # type: ignore[arg-type]
    ],
)
def test_the_error_names_the_argument_and_what_is_allowed(call: Callable[[], Any], where: str, allowed: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert (caught.value.where, caught.value.allowed) == (where, allowed)
    assert "of type int" in caught.value.what or "of type list" in caught.value.what


@pytest.mark.parametrize(
    ("value", "hint", "right"),
    [
        (np.int64(3), int, True),
        (np.float32(0.5), float, True),
        (3, float, True),
        (True, int, False),
        (True, float, False),
        (np.bool_(True), bool, True),
        (1, bool, False),
        (None, Optional[str], True),
        ("text", Sequence[str], False),
        (np.array([1, 2]), Sequence[int], True),
        (np.array([1.5]), Sequence[int], False),
        ((1, 2), Tuple[int, ...], True),
        ([1, "2"], List[int], False),
        ({"x": (1, 3)}, Mapping[str, Sequence[int]], True),
        ({1: (1, 3)}, Mapping[str, Sequence[int]], False),
        ({"x": 1}, Mapping[str, Sequence[int]], False),
        (MODEL, Union[None, str, Path], True),
        (len, Callable[[Any], int], True),
        (5, Callable[[Any], int], False),
        (object(), Any, True),
    ],
)
def test_a_value_fits_its_annotation(value: Any, hint: Any, right: bool) -> None:
    assert fits(value, hint) is right


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"rates": ["1"]}, "['1'] of type list of str"),
        ({"clocks": {"gpu": "fast"}}, "{'gpu': 'fast'} of type dict of str to str"),
        ({"devices": {"GPU"}}, "{'GPU'} of type set of str"),
        ({"rates": {}}, "{} of type dict"),
    ],
)
def test_a_wrong_list_argument_names_the_type_of_its_elements(wrong: Dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError) as caught:
        edgedla.PlacementRequest("orin-nx-16gb", **wrong)
    assert caught.value.what == what


def test_annotations_are_described_in_words() -> None:
    assert in_words(Optional[Mapping[str, Sequence[int]]]) == "a mapping of texts to lists of whole numbers or None"
    assert in_words(Union[None, float, Sequence[float]]) == "a number, a list of numbers or None"
    assert in_words(edgedla.Limits) == "Limits"
    assert in_words(Callable[[], int]) == "something that can be called"


def test_numpy_numbers_in_arguments_become_python_numbers_in_results(tmp_path: Path) -> None:
    """A batch of NumPy's stood in the MACs, and no document could be written."""
    made = onnx_model([node("Relu", "x", "y")], {"x": ("n", 3, 8, 8)}, {"y": None})
    batch, platform = np.int64(2), {"target": "orin"}
    for answer in (edgedla.check(made, batch=batch, **platform), edgedla.place(made, batch=batch, **platform)):
        json.dumps(answer.to_dict())
    request = edgedla.PlacementRequest(target="orin", batch=np.int32(2), use_unknown=np.bool_(True))
    assert type(request.batch) is int
    assert request.use_unknown is True


class _PathLike:
    """A path of another library."""

    def __init__(self, path: Any) -> None:
        self.path = path

    def __fspath__(self) -> Any:
        return self.path


def test_numbers_of_numpy_in_lists_and_mappings_are_pythons_too() -> None:
    """An array of rates ended in NumPy's own error, a clock in "not a number", and limits in a document that JSON refused."""
    made, limits = onnx_model([node("Relu", "x", "y")]), edgedla.Limits(max_regions=np.int64(1))  # type: ignore[arg-type]
    for rates in (np.array([1, 2]), [np.float32(1), np.int64(2)]):
        placed = edgedla.place(
            [made, made],
            target="orin",
            objective="throughput",
            rates=rates,
            clocks={"gpu": np.float32(500)},
            limits=limits,
            time_limit_s=1,
        )
        assert json.loads(placed.to_json())["models"][1]["rate"] == 2
    assert plain({"x": np.array([1, 3])}, Mapping[str, Sequence[int]]) == {"x": [1, 3]}
    kept = np.array([1.0])
    assert plain(kept, Sequence[Any]) is kept


def test_paths_of_any_kind_are_paths(tmp_path: Path) -> None:
    made, file = onnx_model([node("Relu", "x", "y")]), tmp_path / "placement.json"
    file.write_text(edgedla.place(made, target="orin", precision="fp16").to_json(), encoding="utf-8")
    for path in (str(file), file, _PathLike(str(file)), _PathLike(bytes(file))):
        assert edgedla.predict(made, devices=path).streams[0].devices == "placement"  # type: ignore[arg-type]
        assert edgedla.read_placement(path).precision == "fp16"  # type: ignore[arg-type]
        assert edgedla.inspect(path).kind == "placement"  # type: ignore[arg-type]
    for wrong in ("\0", "\ud800"):
        with pytest.raises(UsageError, match="cannot name a file"):
            edgedla.inspect(wrong)


@pytest.mark.parametrize(
    ("wrong", "where"),
    [({"latency_bound_us": float("inf")}, "latency_bound_us"), ({"gap": float("nan")}, "gap"), ({"gap": -0.1}, "gap")],
)
def test_a_bound_or_gap_without_meaning_is_refused(wrong: Dict[str, Any], where: str) -> None:
    """An infinite bound ended in a document that JSON refused; a search with a gap of nan called anything optimal."""
    with pytest.raises(UsageError) as caught:
        edgedla.PlacementRequest("orin-nx-16gb", **wrong)
    assert caught.value.where == where


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(UsageError, match="max_regions: a limit of -1"):
        edgedla.Limits(max_regions=-1)


@pytest.mark.parametrize("name", ["Converted", "Deployment", "FixResult", "Quantized"])
def test_what_can_be_saved_needs_a_path(name: str) -> None:
    save: Callable[[None, Any], Any] = getattr(edgedla, name).save
    for wrong in (5, None, "\0"):
        with pytest.raises(UsageError, match="allowed: text or a path|cannot name a file"):
            save(None, wrong)


#: Functions that take a path, with what else they need.
PATHS: Dict[str, Callable[[str], Any]] = {
    "check": lambda path: edgedla.check(path, target="orin"),
    "fix": lambda path: edgedla.fix(MODEL, target="orin", data=path),
    "build": lambda path: edgedla.build(MODEL, path, edgedla.BuildRequest("orin", backend="host")),
    "quantize": lambda path: edgedla.quantize(MODEL, path),
    "convert": lambda path: edgedla.convert(path),
    "bundle": lambda path: edgedla.bundle(path),
    "inspect": edgedla.inspect,
    "load_artifact": edgedla.load_artifact,
    "bench": edgedla.bench,
}


@pytest.mark.parametrize("name", PATHS)
def test_a_name_that_is_too_long_is_an_error_of_edgedla(name: str, tmp_path: Path) -> None:
    with pytest.raises(EdgedlaError, match="File name too long"):
        PATHS[name](str(tmp_path / ("a" * 300)))


@pytest.mark.parametrize("name", ["check", "build", "convert", "bundle"])
def test_a_current_folder_that_was_removed_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(EdgedlaError) as caught:
        PATHS[name]("m.onnx")
    assert (caught.value.what, caught.value.hint) == ("the current folder was removed", "Go to one that exists.")


def test_an_error_of_a_function_that_was_given_stays_as_it_is() -> None:
    def full(text: str) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        edgedla.build(MODEL, "nowhere", edgedla.BuildRequest("orin"), say=full)
