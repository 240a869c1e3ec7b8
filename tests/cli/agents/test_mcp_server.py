"""`edgedla mcp` asked by the SDK's own client: documents by their schemas, reports as resources, hostile arguments refused."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, List, Tuple

import jsonschema
import numpy as np
import onnx
import pytest

from edgedla.cli.main import exit_code_of
from edgedla.io.documents import schema
from tests.models import node, onnx_model, save

pytestmark = pytest.mark.once
if sys.version_info < (3, 10):
    pytest.skip("the SDK needs Python 3.10", allow_module_level=True)
mcp = pytest.importorskip("mcp")
anyio = pytest.importorskip("anyio")

TARGET = {"target": "agx-orin-64gb", "jetpack": "6.2"}
#: The document that each tool answers with.
DOCUMENTS = {
    "check": "edgedla.check",
    "compare": "edgedla.compare",
    "fix": "edgedla.fixes",
    "predict": "edgedla.prediction",
    "explain": "edgedla.explain",
    "rules": "edgedla.rules",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """root/ with a model, outside/ with another, and links from one to the other."""
    base = tmp_path_factory.mktemp("agents")
    weights = {"w": np.ones((8, 3, 3, 3), np.float32)}
    nodes = [node("Conv", "x w", "a", "conv"), node("HardSigmoid", "a", "b", "gate"), node("Erf", "b", "y", "erf")]
    proto = onnx_model(nodes, {"x": (1, 3, 16, 16)}, {"y": (1, 8, 14, 14)}, weights)
    save(proto, base / "root" / "net.onnx")
    save(proto, base / "outside" / "secret.onnx")
    (base / "root" / "link.onnx").symlink_to(base / "outside" / "secret.onnx")
    (base / "root" / "up").symlink_to(base / "outside")
    os.mkfifo(base / "root" / "pipe.onnx")
    (base / "root" / "text.onnx").write_text("no model")
    (base / "root" / "anyio.py").write_text(f"open({str(base / 'ran')!r}, 'w')\nraise SystemExit\n")
    onnx.save(proto, str(base / "root" / "far.onnx"), save_as_external_data=True, location="w.data", size_threshold=0)
    far = onnx.load(str(base / "root" / "far.onnx"), load_external_data=False)
    far.graph.initializer[0].external_data[0].value = "../outside/secret.onnx"
    (base / "root" / "far.onnx").write_bytes(far.SerializeToString())
    far.graph.initializer[0].external_data[0].value = "up/secret.onnx"
    (base / "root" / "linked.onnx").write_bytes(far.SerializeToString())
    return base


def ask(folder: Path, talk: Callable[[Any], Awaitable[Any]], *options: str) -> Any:
    """What `talk(client)` returns, of a server that runs in the folder as a user starts it."""
    # As the installed script, which does not look for modules in the current folder.
    program = "import sys; sys.path.pop(0); from edgedla.cli import run; run()"
    command = [sys.executable, "-c", program, "mcp", "--root", str(folder / "root"), *options]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    start = mcp.StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=str(folder / "root"))

    async def run() -> Any:
        with anyio.fail_after(120):
            async with mcp.Client(mcp.stdio_client(start)) as client:
                return await talk(client)

    return anyio.run(run)


def everything(path: Path) -> Dict[str, Tuple[int, int]]:
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in sorted(path.rglob("*"))}


def test_each_tool_answers_with_its_document_and_its_reports_are_resources(folder: Path) -> None:
    calls: List[Tuple[str, Dict[str, Any]]] = [
        ("check", {"model": "net.onnx", **TARGET}),
        ("compare", {"model": str(folder / "root" / "net.onnx"), "platforms": ["orin-nx-16gb", "xavier-nx-8gb@jp5.1.4@int8"]}),
        ("fix", {"model": "net.onnx", **TARGET, "precision": "fp16"}),
        ("predict", {"model": "net.onnx", **TARGET, "devices": "GPU"}),
        ("explain", {"text": "CONV006"}),
        ("explain", {"text": "[W] Layer gate is not supported on DLA, falling back to GPU.\nDLA_MEMORY is full\nother"}),
        ("rules", {"kind": "convolution"}),
    ]
    before = everything(folder)

    async def talk(client: Any) -> Any:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        answers = [await client.call_tool(name, given) for name, given in calls]
        listed = [resource.uri for resource in (await client.list_resources()).resources]
        read = {uri: (await client.read_resource(uri)).contents[0] for uri in listed}
        return tools, answers, read

    tools, answers, read = ask(folder, talk)
    assert {name: tool.output_schema for name, tool in tools.items()} == {n: schema(d) for n, d in DOCUMENTS.items()}
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    for (name, _), found in zip(calls, answers):
        assert not found.is_error, found.content
        assert found.structured_content["document"] == DOCUMENTS[name]
        jsonschema.validate(found.structured_content, schema(DOCUMENTS[name]))
        whole = json.loads(read[found.content[1].uri].text)
        jsonschema.validate(whole, schema(DOCUMENTS[name]))
        pages = [link.uri for link in found.content[2:]]
        assert len(pages) == (name in ("check", "compare", "fix"))
        assert all("</html>" in read[page].text for page in pages)
    check, whole = answers[0].structured_content, json.loads(read[answers[0].content[1].uri].text)
    assert (len(whole["layers"]), [x["name"] for x in check["layers"]]) == (3, ["gate", "erf"])
    assert check["totals"] == whole["totals"]
    assert any(answers[0].content[1].uri in note for note in check["notes"])
    assert "falling back to GPU" in answers[5].content[0].text or "MSG" in answers[5].content[0].text
    assert everything(folder) == before, "nothing is written, fix included"


HOSTILE: List[Tuple[str, Dict[str, Any], str]] = [
    ("check", {"model": "../outside/secret.onnx", **TARGET}, "outside the roots"),
    ("check", {"model": "/etc/passwd", **TARGET}, "outside the roots"),
    ("check", {"model": "link.onnx", **TARGET}, "outside the roots"),
    ("check", {"model": "up/secret.onnx", **TARGET}, "outside the roots"),
    ("check", {"model": "far.onnx", **TARGET}, "outside the model's folder"),
    ("fix", {"model": "far.onnx", **TARGET}, "outside the model's folder"),
    ("check", {"model": "linked.onnx", **TARGET}, "outside the model's folder"),
    ("fix", {"model": "linked.onnx", **TARGET}, "outside the model's folder"),
    ("check", {"model": "pipe.onnx", **TARGET}, "a pipe or device"),
    ("check", {"model": "text.onnx", **TARGET}, "not a readable ONNX model"),
    ("check", {"model": ".", **TARGET}, "outside the roots"),
    ("check", {"model": "no\0where.onnx", **TARGET}, "not a path"),
    ("check", {"model": "", **TARGET}, "not a path"),
    ("check", {"model": "-", **TARGET}, "no such file"),
    ("check", {"model": "os:system", **TARGET}, "no such file"),
    ("check", {"model": "x" * 5000, **TARGET}, "too long"),
    ("check", {"model": "net.onnx", "target": "\x1b[2Jorin"}, "unknown"),
    ("check", {"model": "net.onnx", **TARGET, "jetpack": "9" * 4000}, ""),
    ("check", {"model": "net.onnx", **TARGET, "output": "/tmp/x"}, "'output' was unexpected"),
    ("check", {"model": "net.onnx", **TARGET, "shapes": {"x": [-1]}}, "minimum"),
    ("check", {"model": "net.onnx", **TARGET, "shapes": {"x": [10**30, 10**30, 10**30, 10**30]}}, ""),
    ("check", {"model": "net.onnx", **TARGET, "batch": 10**18}, ""),
    ("check", {"model": ["net.onnx"], **TARGET}, "is not of type 'string'"),
    ("check", {"model": "net.onnx"}, "'target' is a required property"),
    ("compare", {"model": "net.onnx", "platforms": ["orin-nx"] * 30}, "too long"),
    ("compare", {"model": "net.onnx", "platforms": ["@@@"]}, ""),
    ("fix", {"model": "net.onnx", **TARGET, "data": "/etc/passwd"}, "'data' was unexpected"),
    ("predict", {"model": "net.onnx", **TARGET, "devices": "/etc/passwd"}, "a file names no devices"),
    ("predict", {"model": "net.onnx", **TARGET, "devices": "GPU", "power_mode": "../../x"}, "power mode"),
    ("rules", {"kind": "../../etc"}, "layer type"),
]


def test_hostile_arguments_are_refused_with_a_reason_and_the_server_goes_on(folder: Path) -> None:
    before = everything(folder)

    async def talk(client: Any) -> Any:
        answers = [await client.session.call_tool(name, given) for name, given, _ in HOSTILE]
        refused = []
        for odd in (
            lambda: client.call_tool("deploy", {}),
            lambda: client.read_resource("file:///etc/passwd"),
            lambda: client.read_resource("edgedla://reports/../../etc/passwd"),
        ):
            with pytest.raises(mcp.MCPError) as error:
                await odd()
            refused.append(str(error.value))
        return answers, refused, await client.call_tool("explain", {"text": "\x1b]0;x\x07 /etc/passwd\nroot:x:0:0"})

    answers, refused, last = ask(folder, talk)
    for (name, given, said), found in zip(HOSTILE, answers):
        text = found.content[0].text
        assert found.is_error, (name, given)
        assert said in text, (name, given, text)
        assert "Traceback" not in text
        assert "bug in edgedla" not in text, (name, given, text)
        assert "\x1b" not in text
        assert "root:" not in text
    assert [word in text for word, text in zip(("no tool", "no report", "no report"), refused)] == [True] * 3
    assert not last.is_error
    assert "\x1b" not in last.content[0].text
    assert everything(folder) == before
    assert not (folder / "ran").exists(), "a module in the user's folder was imported"


@pytest.mark.long
def test_a_call_beyond_its_limit_is_ended_and_the_server_goes_on(folder: Path) -> None:
    chain = [node("Relu", "x" if i == 0 else f"v{i - 1}", f"v{i}") for i in range(49_000)]
    save(onnx_model(chain, {"x": (1, 3, 8, 8)}, {"v48999": (1, 3, 8, 8)}), folder / "root" / "long.onnx")

    async def talk(client: Any) -> Any:
        await client.call_tool("rules", {"kind": "softmax"})
        return await client.call_tool("check", {"model": "long.onnx", **TARGET}), await client.call_tool("rules", {})

    late, after = ask(folder, talk, "--limit", "5")
    assert late.is_error
    assert "not finished after 5 s" in late.content[0].text
    assert not after.is_error


def test_without_the_sdk_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "edgedla.cli.agents.server", raising=False)
    assert exit_code_of(["mcp"]) == 4
    assert "edgedla[mcp]" in capsys.readouterr().err


def test_the_skill_file_names_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    from edgedla.cli.verbs import VERBS

    assert exit_code_of(["mcp", "--skill"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("---\nname: jetson-dla\n")
    words = {
        line.split("edgedla ")[i].split()[0].strip("`.,)")
        for line in text.splitlines()
        if "`edgedla " in line
        for i in range(1, line.count("edgedla ") + 1)
    }
    assert {w for w in words if w.isalpha()} <= {*VERBS, "answers", "names"}
