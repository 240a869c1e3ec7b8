"""Every document has one row, one schema, one form of its header; `inspect` reads what every command writes."""

from __future__ import annotations

import json
import sys
from inspect import signature
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
from click.testing import CliRunner

from edgedla.acceptance.process import report as acceptance_report
from edgedla.acceptance.values import StepResult
from edgedla.cli.main import main
from edgedla.errors import DocumentError, UsageError
from edgedla.inspection.inspect_file import inspect
from edgedla.io.documents import DOCUMENTS, header, identify, require, schema
from edgedla.remote.address import parse_address
from edgedla.remote.boards import BoardJob
from edgedla.remote.inventory import FILE_VARIABLE, BoardEntry, save_board
from edgedla.remote.truth import board_report, failed_report

pytestmark = pytest.mark.once

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema validates the documents; the test extra brings it")

ROOT = Path(__file__).resolve().parents[2]
DETECTOR = str(ROOT / "examples/00_shapes_detector/shapes_detector.onnx")
TARGET = ["--target", "agx-orin-64gb"]


def printed(*arguments: str) -> str:
    """What the command writes to its standard output. Exit codes 0 and 1 are answers."""
    # Before click 8.2 the two streams are one unless this is said; from 8.2 on it cannot be said.
    options = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner.__init__).parameters else {}
    result = CliRunner(**options).invoke(main, list(arguments))
    assert result.exit_code in (0, 1), result.output
    return str(result.stdout)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "detector"
    printed("build", DETECTOR, *TARGET, "--backend", "host", "-o", str(folder))
    return folder


@pytest.fixture(scope="module")
def texts(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    """Document name -> text, each by the command that writes it."""
    work = tmp_path_factory.mktemp("documents")
    plan = printed("build", DETECTOR, *TARGET, "--plan", "--format", "json")
    profile = work / "profile.json"
    profile.write_text(json.dumps(example_profile()))
    copy = work / "copy.onnx"
    copy.write_bytes(Path(DETECTOR).read_bytes())
    samples = work / "samples.npy"
    np.save(samples, np.random.default_rng(0).random((3, 3, 256, 256), np.float32))
    cache = work / "a.cache"
    cache.write_text("TRT-8502-EntropyCalibration2\nimages: 3c010a14\n")
    placed = work / "placed.json"
    printed("place", DETECTOR, "-o", str(placed))
    return {
        "edgedla.acceptance": json.dumps(acceptance_report([StepResult("P1", "skipped", 0.1, "no Jetson")], True)),
        "edgedla.artifact": (artifact / "manifest.json").read_text(),
        "edgedla.baseline": baseline_document(work),
        "edgedla.bench": printed("bench", str(artifact), "--iterations", "1", "--duration", "0", "--format", "json"),
        "edgedla.board-jobs": json.dumps(
            {**header("edgedla.board-jobs"), "jobs": [BoardJob("1", "build", "ana", "build m", "ended", 0, 1.5).to_dict()]}
        ),
        "edgedla.board-list": board_list(work),
        "edgedla.board-report": json.dumps(board_report([failed_report(Path("m.onnx"), "fp16", UsageError("x"), True)])),
        "edgedla.bundle": bundle_manifest(artifact, work),
        "edgedla.check": printed("check", DETECTOR, *TARGET, "--format", "json"),
        "edgedla.check-list": printed("check", DETECTOR, str(copy), *TARGET, "--format", "json"),
        "edgedla.compare": printed("check", DETECTOR, "--compare", "xavier,orin", "--format", "json"),
        "edgedla.deployment": printed(
            "deploy", DETECTOR, *TARGET, "--level", "0", "--backend", "host", "-o", str(work / "deployed"), "--format", "json"
        ),
        "edgedla.doctor": printed("doctor", "--format", "json"),
        "edgedla.drift": example_drift(),
        "edgedla.evaluation": printed(
            "evaluate", DETECTOR, "--data", str(samples), "--metric", "cosine", "--against", DETECTOR, "--format", "json"
        ),
        "edgedla.explain": printed("explain", "DLA supports only 16 subgraphs per DLA core.", "--format", "json"),
        "edgedla.fixes": fixes_document(),
        "edgedla.inspect": printed("inspect", str(cache), "--format", "json"),
        "edgedla.inspect-diff": printed("inspect", str(cache), str(cache), "--format", "json"),
        "edgedla.layers": printed("layers", DETECTOR, "--format", "json"),
        "edgedla.placement": printed("place", DETECTOR, *TARGET, "--format", "json"),
        "edgedla.plan": plan,
        "edgedla.plan-list": json.dumps({**header("edgedla.plan-list"), "stages": [json.loads(plan)]}),
        "edgedla.pareto": printed("place", DETECTOR, "--pareto", "latency,energy", "--format", "json"),
        "edgedla.prediction": printed("place", DETECTOR, "--evaluate", "DLA0", "--format", "json"),
        "edgedla.profile": profile.read_text(),
        "edgedla.quantization": printed("quantize", DETECTOR, "--data", str(samples), "--format", "json"),
        "edgedla.recipes": printed("hub", "list", "--format", "json"),
        "edgedla.rules": printed("rules", "list", "--format", "json"),
        "edgedla.sources": printed("sources", "--format", "json"),
        "edgedla.table": printed("check", DETECTOR, str(copy), "--compare", "orin", "--format", "json"),
        "edgedla.targets": printed("targets", "--format", "json"),
        "edgedla.verification": printed("place", DETECTOR, "--verify", str(placed), "--format", "json"),
    }


def board_list(work: Path) -> str:
    entry = BoardEntry("orin1", parse_address("nvidia@10.0.0.5"), ("lab",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FILE_VARIABLE, str(work / "boards.yaml"))
        save_board(entry)
        return printed("board", "list", "--format", "json")


def baseline_document(work: Path) -> str:
    printed("check", DETECTOR, *TARGET, "-q", "--baseline", str(work / "baseline.json"), "--update-baseline")
    return (work / "baseline.json").read_text()


def bundle_manifest(artifact: Path, work: Path) -> str:
    printed("bundle", str(artifact), "-o", str(work / "bundled"))
    return (work / "bundled" / "bundle.json").read_text()


def example_profile() -> Dict[str, Any]:
    return {
        **header("edgedla.profile"),
        "target": "agx-orin-64gb",
        "power_mode": "MAXN",
        "source": "a test",
        "measurements": [],
        "unresolved": [],
    }


def fixes_document() -> str:
    if sys.version_info >= (3, 10):
        return printed("fix", DETECTOR, *TARGET, "--dry-run", "--no-prove", "--format", "json")
    # The command needs Python 3.10; the document does not.
    from edgedla.fixes.judge import Figures
    from edgedla.fixes.proofs.whole_network import NetworkProof
    from edgedla.fixes.result import FixResult

    empty = FixResult(None, "m", "", {}, "fp16", "hybrid", "latency", 0, (), (), Figures(), Figures(), (), NetworkProof(None))
    return json.dumps(empty.to_dict())


def example_drift() -> str:
    import yaml

    from edgedla.builder.building import plan_build
    from edgedla.builder.request import BuildRequest
    from edgedla.builder.tensorrt.drift import compare

    plan = plan_build(DETECTOR, BuildRequest(target="agx-orin-64gb"))
    drift = compare(plan, {layer.name: ((layer.type, False),) for layer in plan.layers[:2]})
    return str(yaml.safe_dump(drift.to_dict(plan), sort_keys=False))


def parsed(text: str) -> Any:
    import yaml

    return json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_every_document_meets_its_schema_and_can_be_inspected(
    name: str, texts: Dict[str, str], tmp_path: Path, artifact: Path
) -> None:
    document = parsed(texts[name])
    assert identify(document) == (name, DOCUMENTS[name].version)
    assert list(document)[:2] == ["document", "schema_version"] or name in ("edgedla.artifact", "edgedla.plan")
    jsonschema.validate(document, schema(name))
    path = artifact if name == "edgedla.artifact" else tmp_path / "document.json"
    if path != artifact:
        path.write_text(texts[name], encoding="utf-8")
    inspection = inspect(path)
    assert inspection.kind == DOCUMENTS[name].kind
    assert inspection.facts


def test_every_document_has_a_schema_file_and_vice_versa() -> None:
    files = {p.name for p in (ROOT / "edgedla" / "schemas").glob("*.json")}
    assert files == {row.schema_file for row in DOCUMENTS.values()}
    kinds: List[str] = [row.kind for row in DOCUMENTS.values()]
    assert len(kinds) == len(set(kinds))


def test_no_other_file_writes_a_header_by_hand() -> None:
    by_hand = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "edgedla").rglob("*.py"))
        if path.name != "documents.py" and '"schema_version":' in path.read_text(encoding="utf-8")
    ]
    assert by_hand == [], "write **header(NAME) instead"


@pytest.mark.parametrize(
    ("value", "identity"),
    [
        ({"document": "edgedla.plan", "schema_version": 1}, ("edgedla.plan", 1)),
        ({"schema": "edgedla.plan/1"}, ("edgedla.plan", 1)),
        ({"schema": "edgedla.plan/2"}, ("edgedla.plan", 2)),
        ({"document": "edgedla.other", "schema_version": 1}, None),
        ({"document": "edgedla.plan", "schema_version": True}, None),
        ({"document": "edgedla.plan"}, None),
        ({"document": ["edgedla.plan"], "schema_version": 1}, None),
        ([], None),
    ],
)
def test_identify_gives_document_and_version_or_none(value: Any, identity: Any) -> None:
    assert identify(value) == identity


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"schema": "edgedla.plan/2"}, "written as edgedla.plan, version 2"),
        (
            {"document": "edgedla.check", "schema_version": 1},
            "not edgedla's plan document: it is edgedla's check document, which `edgedla check --format json` writes",
        ),
        ({"some": "thing"}, "not edgedla's plan document"),
    ],
)
def test_require_refuses_another_document_by_name_and_version(value: Any, what: str) -> None:
    with pytest.raises(DocumentError) as caught:
        require(value, "edgedla.plan", "plan.json")
    assert caught.value.what == what
    assert caught.value.where == "plan.json"


def test_the_schema_of_an_unknown_document_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"edgedla\.nothing"):
        schema("edgedla.nothing")
