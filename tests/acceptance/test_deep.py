"""`edgedla doctor --deep` with fakes of TensorRT, cuDLA and CUDA and trees of JetPack 5 and 6: the report, whatever step dies."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict

import jsonschema
import pytest
from click.testing import CliRunner

from edgedla.acceptance import builds, process
from edgedla.acceptance.archive import pack, unpack
from edgedla.acceptance.builds import BUILDS
from edgedla.acceptance.built import sample_inputs
from edgedla.acceptance.ingest import ingest, times_of
from edgedla.acceptance.nets import CROSSINGS, LADDER
from edgedla.acceptance.outputs import numeric_findings, variants_of
from edgedla.acceptance.process import run_steps
from edgedla.acceptance.redact import Redactor
from edgedla.acceptance.steps import STEPS, Context
from edgedla.builder.building import build
from edgedla.cli.main import main
from edgedla.costs.profile import Profile
from edgedla.errors import DocumentError, UsageError
from edgedla.io.documents import header, schema
from edgedla.quantization.numerics import single_departures
from tests.fake_tensorrt.board_libraries import make_libraries

HERE = Path(__file__).resolve().parent

SERIAL = "1423021012345"
TREES = {
    "8.5.2": {
        "etc/nv_tegra_release": "# R35 (release), REVISION: 4.1, GCID: 1, BOARD: t186ref",
        "sys/devices/platform/13e40000.host1x/15880000.nvdla0/acm/clk_cap/dla0_core": "1369600000",
        "sys/devices/platform/13e40000.host1x/158c0000.nvdla1/acm/clk_cap/dla1_core": "1369600000",
    },
    "10.3.0": {
        "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic",
        "sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0/clk_cap/dla0_core": "1369600000",
        "sys/devices/platform/bus@0/13e00000.host1x/158c0000.nvdla1/clk_cap/dla1_core": "1369600000",
    },
}
COMMON = {
    "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
    "proc/device-tree/serial-number": f"{SERIAL}\0",
    "proc/meminfo": "MemTotal:       64350180 kB\n",
    "etc/nvpmodel.conf": f"< POWER_MODEL ID=2 NAME=MODE_30W >\n# host: {SERIAL}\n",
    "var/lib/nvpmodel/status": "pmode:0002",
    "sys/class/hwmon/hwmon3/in1_label": "VDD_GPU_SOC",
    "sys/class/hwmon/hwmon3/in1_input": "19000",
    "sys/class/hwmon/hwmon3/curr1_input": "500",
}


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_libraries(tmp_path_factory.mktemp("libraries"))


#: A step with shorter measurements: argv is NAME=VALUE of its module, then what the child takes.
SHORT = """
import sys
import edgedla.acceptance.measure.power as power, edgedla.acceptance.measure.times as times
times.FULL = times.QUICK = times.RUNG = (3, 0.02)
times.TOGETHER_S = 0.1
power.STATE_S, power.STEP_S = 0.4, 0.2
from edgedla.acceptance.child import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def on_board(libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Dict[str, Any]]:
    """`on_board("10.3.0", only=("P1",))`: the report of a run on that board with short measurements, in tmp_path/run."""
    popen = process.subprocess.Popen

    def short(command: Any, **how: Any) -> Any:
        return popen([sys.executable, "-c", SHORT, *command[3:]] if "edgedla.acceptance.child" in command else command, **how)

    monkeypatch.setattr(process.subprocess, "Popen", short)
    for name, step in STEPS.items():
        # A board has its cores for itself; this machine may run other tests beside it.
        longer = step._replace(limit_s=10 * step.limit_s, quick_limit_s=10 * step.quick_limit_s)
        monkeypatch.setitem(STEPS, name, longer)  # type: ignore[arg-type]

    def run(release: str, **how: Any) -> Dict[str, Any]:
        root = tmp_path / "root"
        for name, text in {**COMMON, **TREES[release]}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        paths = os.pathsep.join([str(libraries), *(p for p in sys.path if p)])
        for name, value in {
            "EDGEDLA_ROOT": str(root),
            "PYTHONPATH": paths,
            "LD_LIBRARY_PATH": str(libraries),
            "FAKE_TENSORRT_RELEASE": release,
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            **how.pop("environment", {}),
        }.items():
            monkeypatch.setenv(name, value)
        report = run_steps(tmp_path / "run", **{"quick": True, **how})
        jsonschema.validate(report, schema("edgedla.acceptance"))
        assert json.loads((tmp_path / "run/report.json").read_text()) == report
        return report

    return run


def states(report: Dict[str, Any]) -> Dict[str, str]:
    return {step["id"]: step["state"] for step in report["steps"]}


def reasons(report: Dict[str, Any]) -> str:
    return "\n".join(f"{s['id']} {s['state']}: {s['reason'][-800:]}" for s in report["steps"])


@pytest.mark.slow
@pytest.mark.parametrize("release", TREES)
def test_doctor_deep_runs_all_steps_on_jetpack_5_and_6(
    release: str, on_board: Callable[..., Dict[str, Any]], tmp_path: Path
) -> None:
    report = on_board(release)
    assert list(states(report)) == list(STEPS)
    for step in ("P1", "P3", "P4", "P6"):
        assert states(report)[step] in ("ok", "differs"), reasons(report)
    found = {f["name"]: f for s in report["steps"] if s["id"] != "P8" for f in s["findings"]}
    assert found["module"]["seen"] == "agx-orin-64gb"
    assert found["power mode"]["differs"] is False
    assert found["standalone-fp16"]["seen"] == "built"
    assert found["standalone-fp16 mapped against copied"]["seen"] == "the same bytes"
    assert (tmp_path / "run/files/root/etc/nvpmodel.conf").is_file()


#: What stands in for a board's programs: each as Python code behind this interpreter's name.
PROGRAMS = {
    "trtexec": """
for word in sys.argv[1:]:
    name, _, value = word.partition("=")
    if name == "--saveEngine":
        Path(value).write_bytes(b"engine")
    if name == "--exportLayerInfo":
        node = {"Name": "{ForeignNode[conv0...boxes]}", "LayerType": "DLA"}
        Path(value).write_text(json.dumps({"Layers": [node], "Bindings": []}))
print("&&&& PASSED TensorRT.trtexec")
""",
    "systemd-run": """
words = sys.argv[1:]
while words and words[0].startswith("-"):
    with open(os.environ["FAKE_SANDBOX"], "a") as f:
        f.write(" ".join(words[: 2 if words[0] in ("-p", "-E") else 1]) + "\\n")
    words = words[2 if words[0] in ("-p", "-E") else 1 :]
os.execv(words[0], words)
""",
    "docker": """
mounts = dict(reversed(w.rsplit(":", 1)) for k, w in zip(sys.argv, sys.argv[1:]) if k == "-v" and not w.endswith(":ro"))
words = [w.replace("/truth", mounts["/truth"], 1) for w in sys.argv[sys.argv.index("image") + 1 :]]
os.execv(sys.executable, [sys.executable, "-m", "edgedla", *words])
""",
    "gst-inspect-1.0": "sys.exit(sys.argv[-1] == 'nvjpegdec')",
    "gst-launch-1.0": "",
    "jetson_clocks": """
with open(os.environ["FAKE_CLOCKS"], "a") as f:
    f.write(" ".join(sys.argv[1:2]) + "\\n")
if sys.argv[1:2] == ["--store"]:
    Path(sys.argv[2]).write_text("gpu 612000000")
sys.exit(int(os.environ.get("FAKE_CLOCKS_EXIT", "0")))
""",
    "sudo": """
words = sys.argv[2:]
os.execv(words[0], words)
""",
}


@pytest.fixture
def programs(tmp_path: Path) -> Dict[str, str]:
    """Environment in which these programs are found first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, code in PROGRAMS.items():
        head = f"#!{sys.executable}\nimport json, os, sys\nfrom pathlib import Path\n"
        (folder / name).write_text(head + code)
        (folder / name).chmod(0o755)
    return {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "TRTEXEC": str(folder / "trtexec"),
        "FAKE_SANDBOX": str(tmp_path / "sandbox.txt"),
        "FAKE_BUILD_S": "0.4",
        "FAKE_CLOCKS": str(tmp_path / "clocks.txt"),
    }


@pytest.mark.slow
def test_a_full_run_covers_builds_faults_scripts_sandbox_and_container(
    on_board: Callable[..., Dict[str, Any]], programs: Dict[str, str], tmp_path: Path
) -> None:
    steps = ("P4", "P5", "P6", "P7", "P10", "P11", "P12", "P13")
    report = on_board("10.3.0", only=steps, quick=False, container="image", environment=programs)
    assert set(states(report).values()) <= {"ok", "differs", "skipped"}, reasons(report)
    by_step = {s["id"]: {f["name"]: f for f in s["findings"]} for s in report["steps"]}
    built = {name: f["seen"] for name, f in by_step["P4"].items() if name in BUILDS}
    assert built == dict.fromkeys(BUILDS, "built"), built
    assert by_step["P4"]["many-loadables loadables"]["seen"] == "16"
    # The fake engines compute in FP32, the fake DLA nonsense with NaN in it.
    assert by_step["P5"]["hybrid-fp16 on DLA0"]["seen"] == "as the simulation"
    assert "NaN" not in (tmp_path / "run/report.json").read_text()
    assert by_step["P5"]["standalone-fp16 on DLA0"]["seen"] == "not as the simulation"
    assert by_step["P5"]["numerics-int8 on DLA0: int8-gates"]["seen"] == "undecided"
    assert by_step["P6"]["standalone-fp16: two processes on one core"]["seen"] == "both run"
    for name in ("a loadable cut short", "memory that was not registered"):
        assert by_step["P7"][f"standalone-fp16: {name}"]["seen"] == "refused"
    assert by_step["P7"]["Ctrl-C in a build"]["seen"] == "exit code 130"
    assert [name for name, f in by_step["P10"].items() if f["differs"]] == ["nvjpegdec"]
    assert by_step["P11"]["hybrid-int8 script"]["seen"] == "exit code 0"
    assert by_step["P11"]["hybrid-int8 DLA nodes"]["differs"] is False
    assert by_step["P13"]["P4 in the image"]["seen"] == "ok", by_step["P13"]
    if os.geteuid() == 0:
        assert by_step["P12"]["in the sandbox: libcudla.so.1"]["seen"] == "loads"
        told = (tmp_path / "sandbox.txt").read_text().splitlines()
        assert "-p ProtectSystem=strict" in told, "what the unit says is what is tried"
        assert "-E TMPDIR=/var/lib/edgedla/tmp" in told


@pytest.mark.slow
def test_times_of_operators_fit_the_cost_model(
    on_board: Callable[..., Dict[str, Any]], programs: Dict[str, str], tmp_path: Path
) -> None:
    tegrastats = tmp_path / "root/usr/bin/tegrastats"
    tegrastats.parent.mkdir(parents=True)
    tegrastats.write_text("#!/bin/sh\necho 'VDD_GPU_SOC 9480mW/9480mW VIN_SYS_5V0 100mW/100mW'\nexec sleep 60\n")
    tegrastats.chmod(0o755)
    report = on_board(
        "10.3.0", only=("P4", "P8", "P9"), quick=False, lock_clocks=True, environment={**programs, "FAKE_BUILD_S": "0"}
    )
    by_step = {s["id"]: {f["name"]: f for f in s["findings"]} for s in report["steps"]}
    assert set(LADDER) <= set(by_step["P8"]), reasons(report)
    assert by_step["P8"]["hybrid-fp16"]["data"]["predicted_ms"] > 0
    assert len(by_step["P8"]["DLA0 beside GPU"]["data"]["together_per_s"]) == 2
    crossing = by_step["P8"]["transition"]["data"]
    assert crossing["crossings"] == CROSSINGS
    assert crossing["predicted_us_each"] > 0
    assert by_step["P8"]["hybrid-fp16, clocks locked"]["data"]["clocks"] == "locked"
    assert (tmp_path / "clocks.txt").read_text().split("\n") == ["--store", "", "--restore", ""]
    assert by_step["P9"]["rails"]["data"]["idle_mw"] == {"VDD_GPU_SOC": 9500.0}
    assert by_step["P9"]["VDD_GPU_SOC by the kernel and by tegrastats"]["seen"] == "agrees"
    assert by_step["P9"]["rails of the kernel and of tegrastats"]["differs"], "the kernel shows one rail of two"
    assert by_step["P9"]["GPU busy"]["data"]["inferences"] > 0
    pack(tmp_path / "run", tmp_path / "truth.tar.gz", Redactor())
    learned = ingest(tmp_path / "truth.tar.gz", tmp_path / "evidence")
    assert learned.profiled == len(LADDER)
    models = sorted(str(p) for p in (learned.folder / "models").glob("*.onnx"))
    assert len(models) == len(LADDER)
    fitted = tmp_path / "fitted.json"
    done = CliRunner().invoke(
        main, ["costs", "fit", *models, "--evidence", str(learned.folder / "profile.json"), "-o", str(fitted), "--format", "json"]
    )
    assert done.exit_code == 0, done.exception
    dla = next(e for e in json.loads(done.stdout)["engines"] if e["device"] == "DLA")
    assert dla["operators"] == len(LADDER)
    assert dla["after"] < dla["before"] / 2, "the fake's operators take half as long again as predicted"


def test_the_step_on_outputs_identifies_the_dlas_arithmetic_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations with one variant each play the silicon: P5 names that variant, and only its feature differs."""
    monkeypatch.setattr(builds, "installed_version", lambda: "10.3.0")
    monkeypatch.setattr(builds, "this_board", lambda: SimpleNamespace(target="agx-orin-64gb"))
    context = Context(str(tmp_path), str(tmp_path), True, "")
    for name in ("numerics-int8", "numerics-fp16"):
        row = builds.BUILDS[name]
        path, request = builds.prepare(tmp_path / "m", name, row.make(), row.mode, row.precision, backend="host")
        artifact = build(path, tmp_path / name, request)
        arrays = [sample_inputs(artifact, seed)[0] for seed in range(3)]
        simulated = variants_of(context, name, artifact, arrays)
        features = set()
        for variant, silicon in simulated.items():
            findings = {f.name.split(": ")[1]: f for f in numeric_findings("x", silicon, simulated)}
            features |= set(findings)
            feature, _, value = variant.partition("=")
            assert {n for n, f in findings.items() if f.differs} == ({feature} & set(findings)), (variant, findings)
            if feature in findings:
                assert findings[feature].seen == value
        expected = {f.name for f, _ in single_departures() if f.name.startswith(row.precision)}
        assert expected - features <= {"int8-accumulation"}, "the network tells every other feature apart"


@pytest.mark.parametrize(
    ("revision", "firmware", "says"),
    [
        (
            "5.0",
            {"nvdla0": "2.1.0\n", "nvdla1": "2.1.0\n"},
            {"DLA firmware": "nvdla0 2.1.0, nvdla1 2.1.0", "DLA software": "3.14"},
        ),
        (
            "4.3",
            {},
            {"DLA firmware": "unknown: only root reads /sys/kernel/debug/*nvdla?/firmware/version", "DLA software": "unknown"},
        ),
    ],
)
def test_the_report_states_the_dlas_firmware_and_the_releases_dla_software(
    revision: str,
    firmware: Dict[str, str],
    says: Dict[str, str],
    on_board: Callable[..., Dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {f"sys/kernel/debug/{core}/firmware/version": text for core, text in firmware.items()}
    release = {"etc/nv_tegra_release": f"# R36 (release), REVISION: {revision}, GCID: 1, BOARD: generic"}
    monkeypatch.setitem(TREES, "10.3.0", {**TREES["10.3.0"], **release, **files})
    report = on_board("10.3.0", only=("P1", "P2"))
    seen = {f["name"]: f["seen"] for step in report["steps"] for f in step["findings"]}
    assert {name: seen[name] for name in says} == says, reasons(report)
    assert (tmp_path / "run/files/root/sys/kernel/debug/nvdla0/firmware/version").is_file() == bool(firmware)


def test_the_report_holds_the_environment_without_private_data(on_board: Callable[..., Dict[str, Any]], tmp_path: Path) -> None:
    report = on_board("10.3.0", only=("P1",))
    assert states(report) == {"P1": "ok"} or states(report) == {"P1": "differs"}, reasons(report)
    run = tmp_path / "run"
    planted = (
        f"host secrethost, user alice: /{'home'}/alice/x, mac 48:b0:2d:aa:bb:cc, at 192.168.7.31, Serial Number: ABC99 {SERIAL}"
    )
    (run / "logs/P1.log").write_text(planted)
    listed = pack(run, tmp_path / "truth.tar.gz", Redactor(tmp_path / "root", ("secrethost", "alice")))
    _, members = unpack(tmp_path / "truth.tar.gz")
    assert [name for name, _ in listed] == list(members)
    text = b"\n".join(members.values()).decode()
    for secret in (SERIAL, "secrethost", "alice", "48:b0:2d", "192.168.7.31", "ABC99"):
        assert secret not in text
    assert "10.3.0" in Redactor()("TensorRT 10.3.0.30 and version 10.3.0.26")


@pytest.mark.parametrize(
    ("kind", "says"), [("SEGFAULT", "ended by signal SIGSEGV"), pytest.param("HANG", "out of time after", marks=pytest.mark.long)]
)
def test_a_crashed_or_hung_step_fails_and_the_report_is_complete(
    kind: str, says: str, on_board: Callable[..., Dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "HANG":
        monkeypatch.setitem(STEPS, "P4", STEPS["P4"]._replace(quick_limit_s=6))  # type: ignore[arg-type]
    report = on_board("10.3.0", only=("P1", "P4", "P10"), environment={"FAKE_TENSORRT": kind})
    assert states(report)["P4"] == "failed"
    assert says in report["steps"][1]["reason"]
    assert list(states(report)) == ["P1", "P4", "P10"]


def canned(tmp_path: Path, steps: Any) -> Path:
    folder = tmp_path / "canned"
    (folder / "files").mkdir(parents=True)
    (folder / "logs").mkdir()
    (folder / "files/tegrastats.txt").write_text("RAM 1/2MB\n")
    report = {**header("edgedla.acceptance"), "edgedla": "0.2.0", "quick": False, "steps": steps}
    jsonschema.validate(report, schema("edgedla.acceptance"))
    (folder / "report.json").write_text(json.dumps(report))
    pack(folder, tmp_path / "truth.tar.gz", Redactor())
    return tmp_path / "truth.tar.gz"


def finding(name: str, seen: str = "x", expected: Any = None, **data: Any) -> Dict[str, Any]:
    differs = expected is not None and expected != seen
    return {"name": name, "expected": expected, "seen": seen, "differs": differs, "source": "", "data": data}


def step(step_id: str, *findings: Any) -> Dict[str, Any]:
    return {"id": step_id, "title": STEPS[step_id].title, "state": "ok", "seconds": 1.0, "reason": "", "findings": list(findings)}


def verdict(rules: str, tensorrt: str) -> Dict[str, Any]:
    data = {
        "target": "agx-orin-64gb",
        "trt": "10.3.0",
        "layer": "y",
        "type": "CONVOLUTION",
        "precision": "fp16",
        "rules": rules,
        "tensorrt": tensorrt,
    }
    return finding(f"net {rules} {tensorrt}", tensorrt, rules, **data)


def timed(name: str, **changes: Any) -> Dict[str, Any]:
    data = {
        "network": name,
        "runner": "DLA0",
        "simulated": False,
        "count": 300,
        "mean_ms": 1.0,
        "p50": 1.0,
        "p99": 1.2,
        "clocks_before": {"gpu": 1300.5, "dla0": 0.0},
        "clocks_after": {"gpu": 1300.5, "dla0": 1600.0},
        "throttled": False,
        "precision": "fp16",
        "mode": "hybrid",
        **changes,
    }
    return finding(name, **data)


def tree_hash(folder: Path) -> str:
    parts = [
        f"{p.relative_to(folder)} {hashlib.sha256(p.read_bytes()).hexdigest()}" for p in sorted(folder.rglob("*")) if p.is_file()
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def test_ingest_changes_evidence_only(tmp_path: Path) -> None:
    import yaml

    rules = HERE.parents[1] / "rules"
    before = tree_hash(rules)
    path = canned(
        tmp_path,
        [
            step("P3", verdict("dla", "dla"), verdict("dla", "gpu"), verdict("unknown", "dla")),
            step("P8", timed("a"), timed("b", throttled=True)),
        ],
    )
    learned = ingest(path, tmp_path / "evidence")
    assert tree_hash(rules) == before
    assert (learned.observed, learned.contradicted, learned.times, learned.samples) == (1, 2, 1, 1)
    verdicts = yaml.safe_load((learned.folder / "verdicts.yaml").read_text())["verdicts"]
    assert [(v["status"], v["rules"], v["tensorrt"]) for v in verdicts] == [
        ("observed", "dla", "dla"),
        ("contradicted", "dla", "gpu"),
        ("contradicted", "unknown", "dla"),
    ]
    assert (learned.folder / "times.csv").read_text().splitlines()[1].startswith("a,fp16,hybrid,DLA0,300,1.0,1.2,1.0,")
    assert (learned.folder / "samples/tegrastats.txt").is_file()
    assert "2 of 3 findings differ" in (learned.folder / "SUMMARY.md").read_text()


@pytest.mark.parametrize("planted", ["verdicts.yaml", "times.csv", "SUMMARY.md", "profile.json", "samples/tegrastats.txt"])
def test_ingest_replaces_a_symlinked_file_without_following_it(planted: str, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    place = ingest(ladder_report(tmp_path), tmp_path / "evidence").folder / planted
    written = place.read_bytes()
    place.unlink()
    place.symlink_to(tmp_path / "theirs")
    ingest(tmp_path / "truth.tar.gz", tmp_path / "evidence")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not place.is_symlink()
    assert place.read_bytes() == written


@pytest.mark.parametrize("planted", ["", "samples", "models"])
def test_ingest_refuses_a_symlinked_folder(planted: str, tmp_path: Path) -> None:
    place = ingest(ladder_report(tmp_path), tmp_path / "evidence").folder / planted
    shutil.rmtree(place)
    (tmp_path / "theirs").mkdir()
    place.symlink_to(tmp_path / "theirs")
    with pytest.raises(UsageError, match="there is a link where edgedla would make a folder"):
        ingest(tmp_path / "truth.tar.gz", tmp_path / "evidence")
    assert list((tmp_path / "theirs").iterdir()) == []


def ladder_report(tmp_path: Path) -> Path:
    """A report with a verdict, and an operator's profile of the ladder."""
    profile = Profile("agx-orin-64gb", "MAXN", "a board", ())
    return canned(tmp_path, [step("P3", verdict("dla", "dla")), step("P8", timed(next(iter(LADDER)), profile=profile.to_dict()))])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"throttled": True}, "throttled"),
        ({"clocks_after": {"gpu": 1200.0}}, "clocks moved: gpu"),
        ({"simulated": True}, "simulated"),
    ],
)
def test_unusable_times_are_refused_with_the_reason(changes: Dict[str, Any], says: str) -> None:
    rows, refused = times_of({"steps": [step("P8", timed("net", **changes))]})
    assert rows == []
    assert says in refused[0]


def test_invalid_report_archives_are_refused(tmp_path: Path) -> None:
    import io
    import tarfile

    broken = tmp_path / "x.tar.gz"
    broken.write_bytes(b"no archive")
    with pytest.raises(DocumentError, match="not a truth report"):
        unpack(broken)
    with pytest.raises(DocumentError, match="no such file"):
        unpack(tmp_path / "absent.tar.gz")
    with pytest.raises(DocumentError, match="not a truth report: Is a directory$"):
        unpack(tmp_path)
    for name in ("../evil", "/etc/passwd", "a/../../b"):
        with tarfile.open(broken, "w:gz") as tar:
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
        with pytest.raises(DocumentError, match="is not part of a truth report"):
            unpack(broken)
