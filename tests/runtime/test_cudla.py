"""cuDLA through both of its backends, against a libcudla in host memory with the published interface."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.builder.artifact.store import save_artifact
from edgedla.errors import DeviceLost, EnvironmentMissing, RunError, UsageError
from edgedla.runtime.cuda import cudla_abi
from edgedla.runtime.cuda.cudla_api import Cudla
from edgedla.runtime.cuda.cudla_backends import BindingsBackend, CtypesBackend, open_backend
from edgedla.runtime.cuda.memory import DeviceArray
from edgedla.runtime.cuda.trial_mark import mark_file
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.runners.cudla import CudlaRunner

HERE = Path(__file__).resolve().parent
LOADABLE = b"FAKE\nin b 16\nin a 32\nout y 32\n"


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make the fake libcudla with")
    path = tmp_path_factory.mktemp("cudla") / "libcudla.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(path), str(HERE / "fake_cudla.c")], check=True)
    return str(path)


@pytest.fixture
def backend(library):
    return CtypesBackend(library)


def counts(library):
    """Live devices, modules and registrations."""
    lib = ctypes.CDLL(library)
    return tuple(lib.fake_count(k) for k in range(3))


def artifact_for(folder, loadable=LOADABLE, bindings=(("a", True, 32), ("b", True, 16), ("y", False, 32))):
    artifact = Artifact(
        kind="standalone",
        backend="tensorrt",
        simulated=False,
        model={"name": "m"},
        platform={"chip": "orin", "target": "agx-orin-64gb", "trt": "10.3.0"},
        software={},
        precision="int8",
        placement_predicted={"conv": "DLA0"},
        bindings=tuple(
            Binding(name, is_input, (1, 1, 1, size), "INT8", "LINEAR", size, {}, 1.0) for name, is_input, size in bindings
        ),
    )
    return save_artifact(artifact, folder, {("loadable", "model.dla"): loadable})


@pytest.fixture
def runner_of(tmp_path, backend, host_memory):
    opened = []

    def make(artifact=None, name="DLA0"):
        runner = CudlaRunner(artifact or artifact_for(tmp_path / "a"), name, host_memory, lambda core: Cudla(core, backend))
        opened.append(runner)
        return runner

    yield make
    for runner in opened:
        runner.close()


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    return {"a": rng.integers(0, 256, 32, np.uint8), "b": rng.integers(0, 256, 16, np.uint8)}


def test_an_inference_takes_the_tensors_in_the_loadables_own_order(runner_of, library):
    runner = runner_of()
    for seed in range(3):
        given = inputs(seed)
        # The loadable's only output negates its first input, which is b; the manifest names a first.
        want = -np.tile(given["b"], 2)
        assert np.array_equal(runner.wait(runner.submit(given))["y"], want.astype(np.uint8))
    runner.close()
    runner.close()
    assert counts(library) == (0, 0, 0)


def test_memory_of_cuda_preprocessing_is_registered_once_without_copies(runner_of, library):
    runner = runner_of()
    own = np.arange(16, dtype=np.uint8).view(DeviceArray)
    own.pointer = own.ctypes.data
    given = {**inputs(), "b": own}
    before = counts(library)[2]
    for shift in (0, 5):
        own[:] = np.arange(16, dtype=np.uint8) + shift
        found = runner.wait(runner.submit(given))["y"]
        assert np.array_equal(found, (-np.tile(np.asarray(own), 2)).astype(np.uint8))
    assert counts(library)[2] == before + 1
    assert (runner._buffers["b"].host == 0).all()


def test_a_view_of_a_device_array_has_no_device_pointer():
    own = np.zeros(16, np.uint8).view(DeviceArray)
    own.pointer = 4711
    assert own[4:].pointer is None
    assert own.copy().pointer is None


@pytest.mark.parametrize(("core", "cores"), [(2, "2"), (1, "1"), (0, "0")])
def test_a_missing_core_is_named_with_the_existing_ones(backend, monkeypatch, core, cores):
    monkeypatch.setenv("FAKE_CUDLA_DEVICES", cores)
    with pytest.raises(EnvironmentMissing, match=f"DLA core {core} is not here: cuDLA finds {cores}"):
        Cudla(core, backend)


@pytest.mark.parametrize(
    ("loadable", "says"), [(b"rubbish", "0x7: error in the DLA user-mode"), (b"OLD\n", "0xa: .*incompatible DLA soft")]
)
def test_a_loadable_that_the_driver_refuses_gives_everything_back(runner_of, tmp_path, library, loadable, says):
    with pytest.raises(RunError, match=says) as refused:
        runner_of(artifact_for(tmp_path / "b", loadable))
    assert "build the loadable again" in refused.value.hint
    assert counts(library) == (0, 0, 0)


@pytest.mark.parametrize(
    ("loadable", "says"),
    [
        (b"FAKE\nin a 32\nin b 16\nout y 31\n", "y' has 31 bytes in the loadable, 32 in the manifest"),
        (b"FAKE\nin a 32\nin c 17\nout y 32\n", "no tensor of the manifest fits c' of the loadable"),
        (b"FAKE\nin a 32\nout y 32\n", "the loadable has 1 inputs, the manifest 2"),
        (b"FAKE\nin a 32\nin b 16\n", "cuDLA names 0 outputs"),
    ],
)
def test_a_loadable_of_another_network_is_refused_naming_both_bindings(runner_of, tmp_path, library, loadable, says):
    with pytest.raises(RunError, match=says) as refused:
        runner_of(artifact_for(tmp_path / "b", loadable))
    if "0 outputs" not in says:
        for text in ("loadable: ", "bytes, strides ", "format 9, type 2", "manifest: ", "LINEAR, INT8"):
            assert text in refused.value.hint
    assert counts(library) == (0, 0, 0)


LONG = "features.denseblock4.denselayer16.norm2.running_mean.and.what.comes.after.it.too.head"


@pytest.mark.parametrize("last", ["a", "b"])
def test_names_that_cudla_cuts_find_their_tensors(runner_of, tmp_path, last):
    """80 bytes are all that cudla.h keeps: two heads that differ after them are told apart by their sizes."""
    names = (f"{LONG}.{last}", f"{LONG}.{last}2")
    loadable = f"FAKE\nin x 16\nout {names[1]} 48\nout {names[0]} 32\n".encode()
    bindings = (("x", True, 16), (names[0], False, 32), (names[1], False, 48))
    runner = runner_of(artifact_for(tmp_path / "b", loadable, bindings))
    outputs = runner.wait(runner.submit({"x": np.arange(16, dtype=np.uint8)}))
    assert [outputs[n].nbytes for n in names] == [32, 48]


def test_renamed_outputs_are_paired_by_their_dims(runner_of, tmp_path, caplog):
    loadable = b"FAKE\nin x 16\nout p1 32 2 4 4\nout p0 32 8 2 2\n"
    artifact = artifact_for(tmp_path / "b", loadable, (("x", True, 16), ("small", False, 32), ("large", False, 32)))
    shapes = {"x": (1, 1, 1, 16), "small": (1, 8, 2, 2), "large": (1, 2, 4, 4)}
    bindings = tuple(dataclasses.replace(b, shape_nchw=shapes[b.name]) for b in artifact.bindings)
    runner = runner_of(dataclasses.replace(artifact, bindings=bindings))
    assert [b.name for b in runner._outputs] == ["large", "small"]
    assert "manifest's order" not in caplog.text


def test_indistinguishable_outputs_are_matched_in_order_with_a_warning(runner_of, tmp_path, caplog):
    loadable = b"FAKE\nin x 16\nout p0 32\nout p1 32\n"
    bindings = (("x", True, 16), ("first", False, 32), ("second", False, 32))
    runner = runner_of(artifact_for(tmp_path / "b", loadable, bindings))
    assert [b.name for b in runner._outputs] == ["first", "second"]
    assert "p0' is first, p1' is second" in caplog.text


def test_the_only_output_may_have_another_name(runner_of, tmp_path):
    runner = runner_of(artifact_for(tmp_path / "b", LOADABLE.replace(b"out y", b"out prob_0")))
    assert set(runner.wait(runner.submit(inputs()))) == {"y"}


@pytest.mark.parametrize(
    ("failing", "says"),
    [
        ("cudlaSubmitTask:1073741828", "cudlaSubmitTask failed with 0x40000004: the DLA is busy|submit_task"),
        ("cudlaGetLastError:1073741830", "0x40000006: the DLA timed out"),
    ],
)
def test_a_task_that_fails_is_an_error_and_the_next_one_runs(runner_of, monkeypatch, failing, says):
    runner = runner_of()
    monkeypatch.setenv("FAKE_CUDLA_FAIL", failing)
    with pytest.raises(RunError, match=says):
        runner.wait(runner.submit(inputs()))
    monkeypatch.delenv("FAKE_CUDLA_FAIL")
    assert runner.wait(runner.submit(inputs()))["y"].nbytes == 32


@pytest.mark.parametrize("function", ["cudlaCreateDevice", "cudlaMemRegister", "cudlaModuleGetAttributes", "cudlaDeviceGetCount"])
def test_any_call_that_fails_at_the_start_leaves_nothing_open(runner_of, library, monkeypatch, function):
    monkeypatch.setenv("FAKE_CUDLA_FAIL", f"{function}:2")
    with pytest.raises(RunError, match="out of resources"):
        runner_of()
    monkeypatch.delenv("FAKE_CUDLA_FAIL")
    assert counts(library) == (0, 0, 0)


def test_a_driver_that_fails_while_closing_is_logged(runner_of, monkeypatch, caplog, library):
    runner = runner_of()
    monkeypatch.setenv("FAKE_CUDLA_FAIL", "cudlaModuleUnload:12")
    runner.close()
    monkeypatch.delenv("FAKE_CUDLA_FAIL")
    assert "invalid module" in caplog.text
    lib = ctypes.CDLL(library)
    assert (lib.fake_count(0), lib.fake_count(2)) == (0, 0)


def test_after_close_no_call_reaches_the_driver(backend):
    core = Cudla(0, backend)
    core.close()
    core.close()
    for call in (lambda: core.load(LOADABLE), lambda: core.register(1, 1), core.check, lambda: core.tensors(1, True)):
        with pytest.raises(RunError, match="closed"):
            call()


@pytest.mark.parametrize("given", [{}, {"a": np.zeros(32, np.uint8), "b": np.zeros(15, np.uint8)}])
def test_missing_or_short_inputs_are_refused(runner_of, given):
    runner = runner_of()
    with pytest.raises(RunError, match="the input [ab] (is missing|has 15 bytes)"):
        runner.wait(runner.submit(given))


def test_a_loadable_on_the_gpu_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot run on GPU"):
        CudlaRunner(artifact_for(tmp_path / "a"), "GPU")


def test_a_missing_libcudla_is_reported_with_its_origin(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", _refuse)
    monkeypatch.setitem(sys.modules, "cuda.bindings.cudla", None)
    with pytest.raises(EnvironmentMissing, match="libcudla cannot be loaded") as missing:
        open_backend()
    assert "JetPack" in missing.value.hint


def _refuse(name, *_):
    raise OSError(f"{name}: cannot open shared object file")


def test_python_bindings_without_a_driver_fall_back_to_ctypes(monkeypatch, library):
    class NoDriver:
        CudlaError = RuntimeError

        @staticmethod
        def get_version():
            raise RuntimeError('Failure finding "libcudla.so.1"')

    monkeypatch.setitem(sys.modules, "cuda.bindings.cudla", NoDriver)
    real = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name, *a: real(library, *a))
    assert open_backend().name == "ctypes"


def _bindings():
    return pytest.importorskip("cuda.bindings.cudla", reason="cuda-bindings with cuDLA is not installed (CUDA 13)")


def test_structures_equal_those_of_nvidias_bindings():
    dtypes = _bindings()
    for ours, theirs, names in (
        (cudla_abi.Task, dtypes.task_dtype, _TASK),
        (cudla_abi.TensorDescriptor, dtypes.module_tensor_descriptor_dtype, _DESCRIPTOR),
    ):
        assert ctypes.sizeof(ours) == theirs.itemsize
        for mine, other in names.items():
            field = getattr(ours, mine)
            kind, offset = theirs.fields[other][:2]
            assert (field.offset, field.size) == (offset, kind.itemsize), mine
        assert len(names) == len(theirs.fields)
    assert {int(s) for s in dtypes.Status} - {0, 0x7FFFFFFF} == set(cudla_abi.STATUS)


_TASK = {
    "module": "module_handle",
    "outputs": "output_tensor",
    "num_outputs": "num_output_tensors",
    "num_inputs": "num_input_tensors",
    "inputs": "input_tensor",
    "wait_events": "wait_events",
    "signal_events": "signal_events",
}
_DESCRIPTOR = {"size": "size_", **{n: n for n, _ in cudla_abi.TensorDescriptor._fields_ if n != "size"}}


def test_structures_have_the_published_sizes():
    assert (ctypes.sizeof(cudla_abi.Task), ctypes.sizeof(cudla_abi.TensorDescriptor)) == (48, 168)
    offsets = [getattr(cudla_abi.Task, n).offset for n, _ in cudla_abi.Task._fields_]
    assert offsets == [0, 8, 16, 20, 24, 32, 40]


def test_nvidias_bindings_run_the_same_loadable(library):
    """In a process of its own, because the bindings look for the driver once."""
    _bindings()
    script = (
        "import json, os\n"
        "import numpy as np\n"
        "from edgedla.errors import RunError\n"
        "from edgedla.runtime.cuda.cudla_api import Cudla\n"
        "core = Cudla(1)\n"
        f"module = core.load({LOADABLE!r})\n"
        "buffers = {n: np.arange(s, dtype=np.uint8) for n, s in (('b', 16), ('a', 32), ('y', 32))}\n"
        "at = {n: core.register(v.ctypes.data, v.nbytes) for n, v in buffers.items()}\n"
        "names = [t.name for t in core.tensors(module, False)], [t.name for t in core.tensors(module, True)]\n"
        "core.submit(module, [at['b'], at['a']], [at['y']], 77)\n"
        "core.check()\n"
        "right = bool((buffers['y'] == (-np.tile(buffers['b'], 2)).astype(np.uint8)).all())\n"
        "said = []\n"
        "for call in (lambda: core.load(b'OLD\\n'), lambda: core.submit(module, [at['b'], at['a']], [9], 77)):\n"
        "    try:\n"
        "        call()\n"
        "    except RunError as e:\n"
        "        said.append(e.what)\n"
        "core.close()\n"
        "core.close()\n"
        "print(json.dumps([core.backend, names, right, said]))\n"
    )
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(library), "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    name, names, right, said = json.loads(done.stdout)
    assert name == BindingsBackend.name
    assert names == [["b'", "a'"], ["y'"]]
    assert right
    assert "0xa" in said[0]
    assert "0x4" in said[1]


@pytest.fixture
def device_memory(host_memory, library):
    """The fake learns which buffers stand for memory of cudaMalloc."""
    lib = ctypes.CDLL(library)
    # An address of an earlier test may be memory of the host now.
    lib.fake_device_memory(None)
    host_memory.on_device = staticmethod(lambda address: lib.fake_device_memory(ctypes.c_void_p(address)))
    return host_memory


@pytest.mark.parametrize(("kind", "says"), [("device", "does not take mapped memory"), ("wrong", "with mapped memory y differs")])
def test_buffers_are_copied_if_mapped_memory_fails(runner_of, device_memory, monkeypatch, caplog, kind, says):
    monkeypatch.setenv("FAKE_CUDLA_MEMORY", kind)
    runner = runner_of()
    assert says in caplog.text
    assert runner.memory == "copied"
    for seed in range(3):
        given = inputs(seed)
        assert np.array_equal(runner.wait(runner.submit(given))["y"], (-np.tile(given["b"], 2)).astype(np.uint8))
    # What the CUDA preprocessing wrote into mapped memory is copied too.
    own = np.arange(16, dtype=np.uint8).view(DeviceArray)
    own.pointer = own.ctypes.data
    outputs = runner.wait(runner.submit({**inputs(), "b": own}))
    assert np.array_equal(outputs["y"], (-np.tile(np.asarray(own), 2)).astype(np.uint8))


def test_mapped_memory_is_used_and_reported_if_it_works(runner_of, device_memory):
    runner = runner_of()
    assert runner.memory == "mapped"
    with contextlib.closing(Pool([runner])) as pool:
        assert pool.to_dict()[0]["memory"] == "mapped"


@pytest.mark.parametrize("wanted", ["mapped", "copied"])
def test_the_memory_kind_can_be_forced_by_environment(runner_of, device_memory, monkeypatch, wanted):
    monkeypatch.setenv("EDGEDLA_DLA_MEMORY", wanted)
    monkeypatch.setenv("FAKE_CUDLA_MEMORY", "wrong")
    assert runner_of().memory == wanted


def test_an_unknown_memory_kind_is_a_usage_error(runner_of, monkeypatch):
    monkeypatch.setenv("EDGEDLA_DLA_MEMORY", "unified")
    with pytest.raises(UsageError, match="EDGEDLA_DLA_MEMORY is 'unified'"):
        runner_of()


def test_a_memory_trial_that_killed_its_process_is_not_repeated(runner_of, device_memory, caplog):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mark = mark_file("dla-mapped-memory")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(str(gone.pid))
    assert runner_of().memory == "copied"
    assert "an earlier test of mapped memory crashed its process" in caplog.text


def test_a_successful_memory_trial_leaves_no_mark_file(runner_of, device_memory):
    runner_of()
    assert not mark_file("dla-mapped-memory").exists()


class StreamFailed(Exception):
    """What pycuda raises: cuStreamSynchronize failed."""


def test_the_dlas_own_error_is_reported_when_the_stream_fails(runner_of, host_memory, monkeypatch):
    runner = runner_of()

    def fails():
        raise StreamFailed("cuStreamSynchronize failed: 911")

    runner._stream.synchronize = fails
    monkeypatch.setenv("FAKE_CUDLA_FAIL", "cudlaGetLastError:1073741830")
    with pytest.raises(DeviceLost, match=r"911.*the DLA timed out") as lost:
        runner.wait(runner.submit(inputs()))
    assert lost.value.exit_code == 6
    assert "CUDA cannot go on in this process" in lost.value.hint


def test_after_a_lost_device_no_runner_of_the_process_takes_work(runner_of, tmp_path):
    first, second = runner_of(), runner_of(artifact_for(tmp_path / "other"), "DLA1")

    def fails():
        raise StreamFailed("911")

    first._stream.synchronize = fails
    with contextlib.closing(Pool([first, second])) as pool:
        pool.submit(inputs())
        with pytest.raises(DeviceLost):
            pool.collect(5)
        assert not any(r["in_use"] for r in pool.to_dict())
        with pytest.raises(RunError, match="every runner failed"):
            pool.submit(inputs())


COUNTER = "sys/devices/platform/13e40000.host1x/15880000.nvdla0/power/runtime_active_time"


@pytest.mark.parametrize(("after", "proved"), [("1009", True), ("1000", False)])
def test_the_core_is_proved_by_the_kernels_activity_counter(runner_of, tmp_path, monkeypatch, after, proved):
    counter = tmp_path / "root" / COUNTER
    counter.parent.mkdir(parents=True)
    counter.write_text("1000\n")
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path / "root"))
    runner = runner_of()
    counter.write_text(f"{after}\n")
    runner.wait(runner.submit(inputs()))
    runner.close()
    assert runner.core_proved is proved
