"""A bundle runs by itself, contains what it needs and no more, and detects a changed file."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any, Dict, Iterator, Sequence

import numpy as np
import pytest

import edgedla
from edgedla.bundles import contents
from edgedla.bundles.bundle import bundle
from edgedla.bundles.choices import Choices, needed
from edgedla.bundles.closure import closure, imports_of
from edgedla.bundles.contents import holds_password
from edgedla.bundles.start import root_of, sha256, unpacked
from edgedla.errors import UsageError
from tests.models import node, onnx_model

SOURCE = ["--source", "synthetic://?frames=2&width=64&height=48"]
#: As in an environment with NumPy alone.
BARE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
import runpy
sys.argv = [{place!r}, *{arguments!r}]
runpy.run_path({place!r}, run_name="__main__")
"""
LIBRARIES = "onnx yaml _yaml rich jinja2 click highspy flatbuffers onnxruntime cv2 tensorrt pycuda prometheus_client".split()


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated classifier: x (1, 3, 16, 16) -> 4 scores."""
    folder = tmp_path_factory.mktemp("bundled")
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((4, 3, 16, 16)).astype(np.float32)}
    model = onnx_model([node("Conv", "x w", "y", name="conv")], {"x": (1, 3, 16, 16)}, {"y": (1, 4, 1, 1)}, weights, opset=17)
    edgedla.build(model, folder / "artifact", edgedla.BuildRequest(target="agx-orin-64gb", backend="host"))
    return folder / "artifact"


@pytest.fixture
def pipeline(artifact: Path, tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    (tmp_path / "classes.txt").write_text("a\nb\nc\nd\n")
    path.write_text(
        f"version: 1\nartifact: {artifact}\nsource: synthetic://?frames=3&width=64&height=48\n"
        "decode: {kind: classification, labels: classes.txt, k: 1}\noutputs: {jsonl: results.jsonl}\n"
    )
    return path


def start(place: Path, *arguments: str, cwd: Path, blocked: Sequence[str] = ()) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["XDG_CACHE_HOME"] = str(cwd / "cache")
    if blocked:
        code = BARE.format(names=set(blocked), place=str(place), arguments=list(arguments))
        command = [sys.executable, "-c", code]
    else:
        command = [sys.executable, str(place), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, env=environment)


@pytest.mark.parametrize("ending", ["", ".pyz"])
def test_a_pipeline_runs_from_its_bundle(pipeline: Path, tmp_path: Path, ending: str) -> None:
    made = bundle(None, tmp_path / f"out{ending}", pipeline=pipeline)
    done = start(made.path, "--jsonl", str(tmp_path / "r.jsonl"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames"]["results"] == 3
    results = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    # The labels stand in the bundle: their file may go.
    assert {r["detections"][0]["label"] for r in results if r.get("detections")} <= {"a", "b", "c", "d"}


def test_a_bundle_of_an_artifact_alone_needs_a_source_argument(artifact: Path, tmp_path: Path) -> None:
    made = bundle(artifact, tmp_path / "out")
    done = start(made.path, *SOURCE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    without = start(made.path, cwd=tmp_path)
    assert without.returncode == 2
    assert "source" in without.stderr


@pytest.mark.parametrize("ending", ["", ".pyz"])
def test_verify_of_a_bundle_needs_numpy_alone(pipeline: Path, tmp_path: Path, ending: str) -> None:
    made = bundle(None, tmp_path / f"out{ending}", pipeline=pipeline)
    place = made.path
    done = start(place, "--verify", cwd=tmp_path, blocked=LIBRARIES)
    assert done.returncode == 0, done.stderr
    assert "whole" in done.stdout
    missing = start(place, cwd=tmp_path, blocked=LIBRARIES)
    assert missing.returncode == 4
    assert "Traceback" not in missing.stderr


def test_a_bundle_in_an_empty_environment_names_numpy_as_missing(pipeline: Path, tmp_path: Path) -> None:
    """In a virtual environment without any library: only NumPy is missing, and said to be."""
    made = bundle(None, tmp_path / "out", pipeline=pipeline)
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    done = subprocess.run([str(python), str(made.path)], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 4
    assert "'numpy'" in done.stderr


def test_a_missing_library_is_named_without_edgedlas_extras(pipeline: Path, tmp_path: Path) -> None:
    """Nobody has edgedla installed there: its extras would bring onnx, and all of edgedla."""
    made = bundle(None, tmp_path / "out", pipeline=pipeline)
    done = start(made.path, cwd=tmp_path, blocked=["onnxruntime"])
    assert (done.returncode, done.stderr.splitlines()[-1].strip()) == (4, "pip install onnxruntime")


@pytest.mark.parametrize("module", ["json", "hashlib", "_sha256", "_sha2", "tempfile", "numpy", "onnxruntime"])
def test_files_in_a_bundles_folder_are_not_imported_as_libraries(pipeline: Path, tmp_path: Path, module: str) -> None:
    """Results are written there, and `json.py` may be anybody's."""
    made = bundle(None, tmp_path / "out", pipeline=pipeline)
    (made.path / f"{module}.py").write_text("raise SystemExit('shadowed')")
    done = start(made.path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    here = subprocess.run([sys.executable, "__main__.py", "--verify"], cwd=made.path, capture_output=True, text=True, timeout=60)
    assert here.returncode == 0, here.stderr


def test_modules_that_the_pipeline_does_not_use_are_left_out(pipeline: Path, tmp_path: Path) -> None:
    made = bundle(None, tmp_path / "out", pipeline=pipeline)
    modules = json.loads((made.path / "bundle.json").read_text())["modules"]
    rooms = {m.split(".")[1] for m in modules if "." in m}
    assert not rooms & {"cli", "reports", "rules", "regions", "costs", "placement", "fixes", "accuracy", "targets"}
    assert "edgedla.runtime.runners.host" in modules
    assert "edgedla.runtime.runners.tensorrt_engine" not in modules
    assert made.code_bytes < 1_000_000
    assert {p.suffix for p in made.path.rglob("*.py*")} == {".py"}


def test_verify_names_a_changed_file(pipeline: Path, tmp_path: Path) -> None:
    made = bundle(None, tmp_path / "out", pipeline=pipeline)
    victim = made.path / "edgedla" / "errors.py"
    victim.write_text(victim.read_text() + "# more\n")
    done = start(made.path, "--verify", cwd=tmp_path)
    assert done.returncode == 3
    assert "edgedla/errors.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_changed_artifact_is_noticed(pipeline: Path, tmp_path: Path) -> None:
    made = bundle(None, tmp_path / "out", pipeline=pipeline)
    model = next((made.path / "artifacts" / "0").glob("model-*.onnx"))
    model.write_bytes(model.read_bytes() + b"\0")
    done = start(made.path, cwd=tmp_path)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("part", ["middle", "end"])
def test_a_damaged_or_truncated_archive_is_refused(pipeline: Path, tmp_path: Path, part: str) -> None:
    """Changed bytes in a compressed member; a file that was cut off, which Python takes for no archive."""
    place = bundle(None, tmp_path / "out.pyz", pipeline=pipeline).path
    data = bytearray(place.read_bytes())
    with zipfile.ZipFile(place) as archive:
        victim = archive.getinfo("edgedla/errors.py")
    at = victim.header_offset + 30 + len(victim.filename) + victim.compress_size // 2
    data[at : at + 8] = bytes(b ^ 255 for b in data[at : at + 8])
    place.write_bytes(data if part == "middle" else data[: len(data) // 2])
    done = start(place, "--verify", cwd=tmp_path) if part == "middle" else verified(place, tmp_path)
    assert done.returncode == 3, done.stderr
    assert "damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_archive_that_was_damaged_after_a_start_is_not_verified(pipeline: Path, tmp_path: Path) -> None:
    """The start has unpacked it, whole; verify is asked about the archive."""
    place = bundle(None, tmp_path / "out.pyz", pipeline=pipeline).path
    assert start(place, "--verify", cwd=tmp_path).returncode == 0
    data = bytearray(place.read_bytes())
    with zipfile.ZipFile(place) as archive:
        victim = archive.getinfo("artifacts/0/manifest.json")
    data[victim.header_offset + 30 + len(victim.filename) + victim.compress_size // 2] ^= 1
    place.write_bytes(data)
    done = start(place, "--verify", cwd=tmp_path)
    assert (done.returncode, "artifacts/0/manifest.json" in done.stderr) == (3, True), done.stderr


@pytest.mark.parametrize("file", ["__main__.py", "edgedla/bundles/start.py", "bundle.json"])
def test_a_truncated_start_file_never_exits_with_0(pipeline: Path, tmp_path: Path, file: str) -> None:
    """The beginning of a Python file may be a program that does nothing: a copy that was cut must not look as if it had run."""
    place = bundle(None, tmp_path / "out", pipeline=pipeline).path
    whole = (place / file).read_bytes()
    ends = [m.end() for m in re.finditer(rb"\n", whole)][:-1]
    for at in {1, 5, 6, *ends[:: max(1, len(ends) // 6)], len(whole) - 2}:
        (place / file).write_bytes(whole[:at])
        done = start(place, "--verify", cwd=tmp_path)
        # Of the file that Python reads first it says itself that it has no end.
        cut = file == "__main__.py" and (done.returncode, "SyntaxError" in done.stderr) == (1, True)
        said = done.stderr.startswith("bundle: error: ") and "Traceback" not in done.stderr
        assert cut or (done.returncode == 3 and said), (at, done.stderr)


def test_a_truncated_archive_never_exits_with_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = {"modules": [], "needs": [], "targets": [], "simulated": False}
    small = contents.Contents(manifest, {"__main__.py": b"1"}, {})
    monkeypatch.setattr("edgedla.bundles.bundle.contents_of", lambda *_: small)
    whole = bundle("", tmp_path / "out.pyz").path.read_bytes()
    for at in (1, 23, 40, whole.index(b"\n") + 1, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        (tmp_path / "cut.pyz").write_bytes(whole[:at])
        done = start(tmp_path / "cut.pyz", cwd=tmp_path)
        assert (done.returncode, "SyntaxError" in done.stderr) == (1, True), (at, done.stderr)
        assert at < 40 or "the bundle is damaged" in done.stderr


def test_a_damaged_unpacked_copy_is_unpacked_again(pipeline: Path, tmp_path: Path) -> None:
    """A power cut may leave files empty; to bundle again would not help, for equal bundles share their folder."""
    place = bundle(None, tmp_path / "out.pyz", pipeline=pipeline).path
    assert start(place, cwd=tmp_path).returncode == 0
    (folder,) = (tmp_path / "cache" / "edgedla" / "bundles").iterdir()
    (model,) = (folder / "artifacts" / "0").glob("model-*.onnx")
    for victim in (folder / "edgedla" / "errors.py", model, folder / "bundle.json"):
        victim.write_bytes(b"")
    (folder / "__main__.py").unlink()
    done = start(place, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((folder / "results.jsonl").read_text().splitlines()) == 6


def verified(place: Path, cwd: Path) -> subprocess.CompletedProcess:
    """What the start says of the file."""
    code = f"from edgedla.bundles.start import root_of; root_of({str(place)!r})"
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60)


def archive(path: Path) -> zipfile.ZipFile:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("bundle.json", "{}")
        made.writestr("a/b", "c")
    return zipfile.ZipFile(path)


HOLDER = """
import sys
from edgedla.bundles.start import locked
held = locked(sys.argv[1])
print(held, flush=True)
sys.stdin.read()
"""


def test_folders_of_killed_starts_are_removed_but_not_those_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container every start has the same process id, so a lock tells which one runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    manifest = {"data": ["a/b"], "files": {}}
    above, name = tmp_path / "cache" / "edgedla" / "bundles", sha256(b"{}")[:32]
    killed, running, other, link = (above / n for n in (f"{name}.x", f"{name}.y", f"{sha256(b'z')[:32]}.x", f"{name}.z"))
    outside = tmp_path / "outside"
    for left in (killed, running, other, outside):
        left.mkdir(parents=True)
        (left / "part").write_text("half")
    link.symlink_to(outside)
    (killed / "out").symlink_to(outside)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(running)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert int(holder.stdout.readline()) >= 0
        folder = Path(unpacked(archive(tmp_path / "x.pyz"), manifest, b"{}"))
        assert (folder / "a" / "b").read_text() == "c"
        assert set(above.iterdir()) == {folder, running, other, link}
        assert (outside / "part").read_text() == "half"
        holder.kill()
    # A start that unpacks nothing tidies too.
    assert unpacked(archive(tmp_path / "x.pyz"), manifest, b"{}") == str(folder)
    assert set(above.iterdir()) == {folder, other, link}


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as e:
        unpacked(archive(tmp_path / "x.pyz"), {"data": [], "files": {}}, b"{}")
    assert e.value.code == 4
    assert f"below {tmp_path / 'cache'}: Not a directory" in capsys.readouterr().err


def test_a_failed_unpacking_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(KeyError):
        unpacked(archive(tmp_path / "x.pyz"), {"data": ["absent"], "files": {}}, b"{}")
    assert list((tmp_path / "cache" / "edgedla" / "bundles").iterdir()) == []


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        ({"source": "rtsp://u:secret@cam/1"}, True),
        ({"sources": {"a": {"uri": "rtsp://cam/1?password=x"}, "b": "csi://0"}}, True),
        ({"source": "gst://rtspsrc location=rtsp://cam/1 user-pw=x"}, True),
        ({"source": "rtsp://cam/1", "outputs": {"mqtt": {"url": "mqtt://broker"}}, "decode": ["a", 1, None]}, False),
    ],
)
def test_holds_password_detects_secrets_in_a_pipeline(document: Dict[str, Any], answer: bool) -> None:
    assert holds_password(document) is answer


@pytest.fixture
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_usual_umask")
@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("ending", ["", ".tar", ".pyz"])
def test_a_bundle_with_a_password_is_readable_by_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, private: bool
) -> None:
    manifest = {"modules": [], "needs": [], "targets": [], "simulated": False}
    small = contents.Contents(manifest, {"__main__.py": b"1"}, {}, private)
    monkeypatch.setattr("edgedla.bundles.bundle.contents_of", lambda *_: small)
    out = tmp_path / f"out{ending}"
    if ending:
        out.write_text("an older one, for everybody")
        out.chmod(0o644)
    assert bundle("", out).private is private
    place = out if ending else out / "bundle.json"
    assert (place.stat().st_mode & 0o077 == 0) is private
    if ending == ".tar":
        with tarfile.open(out) as packed:
            assert packed.getmember("out/bundle.json").mode == (0o600 if private else 0o644)


@pytest.mark.parametrize(("at", "value"), [(6, 1), (6, 32), (8, 99)])
def test_an_archive_with_damaged_header_flags_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture, at: int, value: int
) -> None:
    """They ask for a password, a patch or a method that nobody knows: no BadZipFile."""
    place = tmp_path / "x.pyz"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("bundle.json", "{}")
    data = bytearray(place.read_bytes())
    for header, offset in ((b"PK\3\4", 0), (b"PK\1\2", 2)):
        data[data.index(header) + at + offset] = value
    place.write_bytes(data)
    with pytest.raises(SystemExit) as ended:
        root_of(str(place))
    assert ended.value.code == 3
    assert "the bundle is damaged" in capsys.readouterr().err


def test_equal_bundles_have_equal_code(pipeline: Path) -> None:
    one, other = (contents.contents_of(None, pipeline) for _ in range(2))
    assert one.code == other.code
    root = contents.PACKAGE.parent
    assert one.code["edgedla/bundles/program.py"] == (root / "edgedla/bundles/program.py").read_bytes()
    assert one.manifest == other.manifest


def test_equal_bundles_have_equal_bytes(pipeline: Path, tmp_path: Path) -> None:
    for ending in (".tar", ".tar.gz", ".pyz"):
        one, other = (bundle(None, tmp_path / f"{name}/x{ending}", pipeline=pipeline).path for name in "ab")
        assert one.read_bytes() == other.read_bytes()
    with tarfile.open(tmp_path / "a" / "x.tar") as archive:
        assert "x/__main__.py" in archive.getnames()
    assert zipfile.ZipFile(tmp_path / "a" / "x.pyz").testzip() is None


def test_a_source_type_that_was_not_bundled_is_refused_by_module_name(pipeline: Path, tmp_path: Path) -> None:
    pipeline.write_text(pipeline.read_text().replace("synthetic://?frames=3&width=64&height=48", "images://pictures"))
    made = bundle(None, tmp_path / "out", pipeline=pipeline)
    done = start(made.path, *SOURCE, cwd=tmp_path)
    assert done.returncode == 4
    assert "this bundle was made without edgedla.runtime.sources.synthetic" in done.stderr


def test_a_folder_that_is_not_a_bundle_is_not_overwritten(artifact: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.jpg").write_text("x")
    with pytest.raises(UsageError, match="this path holds something other than a bundle"):
        bundle(artifact, tmp_path / "mine")
    with pytest.raises(UsageError, match="nothing to bundle"):
        bundle(None, tmp_path / "out")
    assert bundle(artifact, tmp_path / "out").path == bundle(artifact, tmp_path / "out").path


def test_a_bundles_folder_with_other_files_is_not_replaced(pipeline: Path, tmp_path: Path) -> None:
    """A pipeline's relative outputs stand in the bundle's folder; a bundle.json of another program makes none a bundle's."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "bundle.json").write_text('{"files": {}, "data": []}')
    with pytest.raises(UsageError, match=r"bundle\.json"):
        bundle(None, mine, pipeline=pipeline)
    made = bundle(None, tmp_path / "out", pipeline=pipeline).path
    assert start(made, cwd=tmp_path).returncode == 0
    with pytest.raises(UsageError, match=r"results\.jsonl"):
        bundle(None, made, pipeline=pipeline)
    assert len((made / "results.jsonl").read_text().splitlines()) == 3
    (made / "results.jsonl").unlink()
    bundle(None, made, pipeline=pipeline)


@pytest.mark.parametrize(
    ("choices", "module", "answer"),
    [
        ({"runners": {"tensorrt"}}, "edgedla.runtime.runners.tensorrt_engine", True),
        ({"runners": {"tensorrt"}}, "edgedla.runtime.runners.cudla", False),
        ({"runners": {"cudla"}}, "edgedla.runtime.runners.cudla", True),
        ({"schemes": {"csi"}}, "edgedla.runtime.sources.gst_launch", True),
        ({"schemes": {"file"}}, "edgedla.runtime.sources.gst_launch", False),
        ({"schemes": set()}, "edgedla.runtime.sources.gst_launch", True),
        ({}, "edgedla.placement.result.document", False),
        ({}, "edgedla.runtime.decode.yolo", True),
        ({}, "edgedla.runtime.health.endpoint", False),
        ({"prometheus": True}, "edgedla.runtime.health.endpoint", True),
        ({"rtsp": True}, "edgedla.targets.board", True),
    ],
)
def test_pipeline_choices_decide_which_modules_are_included(choices: Dict[str, Any], module: str, answer: bool) -> None:
    given = {"runners": {"host"}, "schemes": {"synthetic"}, "draws": False, "prometheus": False, "rtsp": False, **choices}
    assert needed(Choices(**given))(module) is answer


def test_early_and_late_imports_are_distinguished(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        "import a\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import never\n"
        "try:\n    import b\nexcept ImportError:\n    import c\ndef f():\n    import d\n"
    )
    found = dict(imports_of(ast.parse(path.read_text()).body))
    assert {k: found[k] for k in "abcd"} == {"a": False, "b": False, "c": False, "d": True}
    assert "never" not in found


def test_programs_that_a_module_starts_are_included() -> None:
    modules, _ = closure(frozenset({"edgedla.runtime.sources.gst_launch"}), lambda module: False)
    assert "edgedla.runtime.sources.gst_child" in modules


@pytest.mark.parametrize("program", ["sources/gst_child.py", "outputs/rtsp_child.py"])
def test_a_program_in_a_bundle_needs_nothing_beside_it(pipeline: Path, tmp_path: Path, program: str) -> None:
    text = pipeline.read_text().replace("synthetic://?frames=3&width=64&height=48", "rtsp://127.0.0.1/x")
    pipeline.write_text(text.replace("{jsonl: results.jsonl}", '{rtsp: {url: "rtsp://127.0.0.1:9/{source}"}}'))
    made = bundle(None, tmp_path / "out", pipeline=pipeline)
    code = "import runpy, sys; runpy.run_path(sys.argv[1]); print(sorted(m for m in sys.modules if 'edgedla' in m))"
    command = [sys.executable, "-I", "-S", "-c", code, str(made.path / "edgedla" / "runtime" / program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_parent_packages_of_a_module_are_included() -> None:
    modules, others = closure(frozenset({"edgedla.formats.layout"}), lambda module: False)
    assert {"edgedla", "edgedla.formats", "edgedla.formats.layout"} <= set(modules)
    assert "numpy" in others or others


#: What a Jetson has: its name, and the release of its system.
BOARD_FILES = {
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic",
    "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit",
    "proc/device-tree/compatible": "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234",
    "proc/meminfo": "MemTotal:       64349264 kB",
}


def on_a_board(artifact: Path, tmp_path: Path, *arguments: str, target: str) -> subprocess.CompletedProcess:
    """A bundle of an engine for `target`, started with NumPy alone on a machine with an AGX Orin's files."""
    from dataclasses import replace

    from edgedla.builder.artifact.store import save_artifact

    host = edgedla.load_artifact(artifact)
    engine = replace(
        host,
        kind="hybrid",
        backend="tensorrt",
        simulated=False,
        software={"tensorrt": "10.3.0"},
        accuracy=None,
        files=(),
        platform={**host.platform, "target": target},
    )
    save_artifact(engine, tmp_path / "engine", {("engine", "engine.plan"): b"engine"})
    made = bundle(tmp_path / "engine", tmp_path / "out")
    for name, text in BOARD_FILES.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment.update(
        EDGEDLA_ROOT=str(tmp_path / "root"),
        BOARD_MANIFEST=str(tmp_path / "engine" / "manifest.json"),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    blocked = set(LIBRARIES) - {"tensorrt"}
    board = str(Path(__file__).with_name("board.py"))
    code = BARE.format(names=blocked, place=board, arguments=[str(made.path), *arguments])
    return subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment
    )


def test_on_a_board_numpy_alone_runs_frames_of_the_networks_size(artifact: Path, tmp_path: Path) -> None:
    source = ["--source", "synthetic://?frames=2&width=16&height=16"]
    done = on_a_board(artifact, tmp_path, *source, target="agx-orin-64gb")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames"]["results"] == 2


def test_on_a_board_numpy_alone_scales_frames(artifact: Path, tmp_path: Path) -> None:
    done = on_a_board(artifact, tmp_path, *SOURCE, target="agx-orin-64gb")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames"]["results"] == 2


def test_a_bundled_engine_is_refused_on_another_module(artifact: Path, tmp_path: Path) -> None:
    done = on_a_board(artifact, tmp_path, *SOURCE, target="agx-xavier-32gb")
    assert done.returncode == 3, done.stderr
    assert "agx-xavier-32gb" in done.stderr
