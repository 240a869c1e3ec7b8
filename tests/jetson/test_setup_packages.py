"""Which packages jetson/setup.sh installs on each JetPack: a dry run with tables of installed and available packages."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Dict, Sequence, Tuple

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "jetson" / "setup.sh"
UBUNTU = (
    "gstreamer1.0-tools",
    "gstreamer1.0-plugins-base",
    "gstreamer1.0-plugins-good",
    "gstreamer1.0-plugins-bad",
    "v4l-utils",
    "python3-venv",
    "python3-opencv",
    "build-essential",
)


def cuda(release: str) -> Tuple[str, ...]:
    names = ("cuda-cudart", "libcudla", "cuda-nvcc", "cuda-cudart-dev", "libcurand-dev")
    return tuple(f"{name}-{release}" for name in names)


#: JetPack: (L4T line, Python, CUDA, whether there is a package of the DLA's compiler).
BOARDS: Dict[str, Tuple[str, str, str, bool]] = {
    "5.1.3": ("R35 (release), REVISION: 5.0", "python3.8", "11-4", False),
    "6.0": ("R36 (release), REVISION: 3.0", "python3.10", "12-2", True),
    "6.2": ("R36 (release), REVISION: 4.3", "python3.10", "12-6", True),
    "7.2": ("R39 (release), REVISION: 2.0", "python3.12", "13-0", False),
}


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def dry_run(
    base: Path, jetpack: str, installed: Sequence[str] = (), sources: Sequence[str] = (), cv2: bool = False, core: str = ""
) -> str:
    """What the script says where these packages are installed and those can be had."""
    line, python, _, _ = BOARDS[jetpack]
    (base / "etc").mkdir()
    (base / "etc/nv_tegra_release").write_text(f"# {line}, GCID: 1, BOARD: generic\n")
    bin_ = base / "bin"
    table = " ".join(installed)
    program(
        bin_,
        "dpkg-query",
        'for last; do :; done\ncase "$2" in *Version*) '
        f'[ "$last" = nvidia-l4t-core ] && printf "%s" "{core}";; '
        f'*) case " {table} " in *" $last "*) printf "install ok installed";; *) exit 1;; esac;; esac',
    )
    had = " ".join(sources)
    program(
        bin_,
        "apt-cache",
        f'case " {had} " in *" $2 "*) there=1;; esac\n'
        f'if [ "$1" = madison ]; then [ -n "$there" ] && echo " $2 | {core} | https://repo"; exit 0; fi\n'
        'echo "$2:"; echo "  Installed: (none)"; echo "  Candidate: ${there:+1.0}${there:-(none)}" | sed "s/1.01/1.0/"',
    )
    program(bin_, python, "exit 0" if cv2 else "exit 1")
    done = subprocess.run(
        ["bash", str(SCRIPT), "--dry-run", "--venv", str(base / "venv")],
        env={**os.environ, "EDGEDLA_ROOT": str(base), "HOME": str(base), "PATH": f"{bin_}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def packages(said: str) -> Sequence[str]:
    line = next((x for x in said.splitlines() if x.startswith("installing: ")), "installing: ")
    return line[len("installing: ") :].split()


def everything(jetpack: str) -> Tuple[str, ...]:
    _, python, release, compiler = BOARDS[jetpack]
    nvidia = ("python3-libnvinfer", "libnvinfer-bin", *(("nvidia-l4t-dla-compiler",) if compiler else ()))
    return (*UBUNTU, f"{python}-venv", f"{python}-dev", *nvidia, *cuda(release))


@pytest.mark.parametrize("jetpack", BOARDS)
def test_a_fresh_board_gets_what_tensorrt_cudla_and_pycuda_need(tmp_path: Path, jetpack: str) -> None:
    _, python, release, compiler = BOARDS[jetpack]
    wanted = packages(dry_run(tmp_path, jetpack, sources=everything(jetpack), core="36.4.3-20250107"))
    for name in (
        "python3-libnvinfer",
        "libnvinfer-bin",
        f"libcudla-{release}",
        f"cuda-nvcc-{release}",
        f"cuda-cudart-dev-{release}",
        f"libcurand-dev-{release}",
        f"{python}-dev",
    ):
        assert name in wanted
    assert ("nvidia-l4t-dla-compiler=36.4.3-20250107" in wanted) is compiler


def test_cuda_packages_match_the_boards_version(tmp_path: Path) -> None:
    (tmp_path / "usr/local/cuda-12.2").mkdir(parents=True)
    sources = (*everything("6.0"), *everything("6.2"))
    wanted = packages(dry_run(tmp_path, "6.0", sources=sources))
    assert "libcudla-12-2" in wanted
    assert "libcudla-12-6" not in wanted


def test_a_second_run_installs_nothing(tmp_path: Path) -> None:
    said = dry_run(tmp_path, "6.2", installed=everything("6.2"), cv2=True)
    assert "system packages: all there" in said


def test_jetpacks_opencv_is_not_replaced(tmp_path: Path) -> None:
    """JetPack's package is libopencv-python: Ubuntu's python3-opencv would replace it by an older one without GStreamer."""
    assert "python3-opencv" not in packages(dry_run(tmp_path, "6.2", sources=everything("6.2"), cv2=True))


def test_a_board_without_nvidias_source_gets_a_one_line_message(tmp_path: Path) -> None:
    said = dry_run(tmp_path, "6.2", sources=(*UBUNTU, "python3.10-venv"))
    lines = said.splitlines()
    assert [x for x in lines if x.startswith("no package source has: ")] == [
        "no package source has: python3-libnvinfer libnvinfer-bin nvidia-l4t-dla-compiler"
    ]
    assert sum("TensorRT's Python module is not to be had" in x for x in lines) == 1
    assert [x for x in lines if x.startswith("pycuda")] == [
        f"pycuda is left out: {tmp_path}/usr/local/cuda has no bin/nvcc include/cuda.h include/curand.h; frames are "
        "preprocessed on the CPU, everything else works"
    ]
    assert "would run" in said
    assert "doctor" in lines[-1]


def test_pycuda_is_built_if_nvcc_and_headers_are_present(tmp_path: Path) -> None:
    for file in ("bin/nvcc", "include/cuda.h", "include/curand.h"):
        path = tmp_path / "usr/local/cuda" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    said = dry_run(tmp_path, "6.2", installed=everything("6.2"))
    assert "pip install --quiet pycuda numpy<2" in said


def test_the_service_gives_nvcc_a_writable_tmpdir(tmp_path: Path) -> None:
    """ProtectSystem=strict makes /tmp read-only: nvcc ends with "Could not open output file '/tmp/tmpxft_...'"."""
    unit = (ROOT / "jetson/edgedla-pipeline@.service").read_text().splitlines()
    folder = next(x for x in unit if x.startswith("Environment=TMPDIR=")).partition("TMPDIR=")[2]
    state = next(x for x in unit if x.startswith("StateDirectory=")).partition("=")[2].split()
    assert folder in {f"/var/lib/{name}" for name in state}
    assert "ProtectSystem=strict" in unit


@pytest.mark.skipif(os.geteuid() != 0, reason="a read-only /tmp needs root: unshare and mount")
def test_a_compiler_that_writes_to_tmpdir_works_under_a_read_only_tmp(tmp_path: Path) -> None:
    """As systemd's sandbox makes it, with a stand-in for nvcc."""
    state, nvcc = Path("/var/tmp") / f"edgedla-state-{os.getpid()}", tmp_path / "nvcc"
    nvcc.write_text('#!/bin/sh\necho x > "${TMPDIR:-/tmp}/tmpxft_1" && echo compiled\n')
    nvcc.chmod(0o755)
    state.mkdir()
    try:
        script = f"mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && TMPDIR={{}} sh {nvcc}"
        answers = [
            subprocess.run(["unshare", "-m", "sh", "-c", script.format(folder)], capture_output=True, text=True, check=False)
            for folder in ("/tmp", str(state))
        ]
    finally:
        for file in state.iterdir():
            file.unlink()
        state.rmdir()
    if "unshare" in answers[0].stderr or "mount:" in answers[1].stderr:
        pytest.skip("mount namespaces are not allowed here")
    assert [a.stdout.strip() for a in answers] == ["", "compiled"]


def test_base_images_of_all_releases_are_documented() -> None:
    """r8.6.2 is JetPack 6.0's alone; 6.1 and 6.2 have TensorRT 10.3."""
    for text in ((ROOT / "jetson" / name).read_text() for name in ("Dockerfile", "README.md")):
        for tag in ("r8.5.2.2-devel", "r8.6.2-devel", "r10.3.0-devel"):
            assert tag in text


def test_the_image_installs_into_an_environment_with_its_own_pip() -> None:
    """Ubuntu 20.04's pip 20.0.2 finds no wheel of highspy for Python 3.8; Ubuntu 24.04 refuses pip outside one (PEP 668)."""
    text = (ROOT / "jetson/Dockerfile").read_text()
    assert "-m venv --system-site-packages /opt/edgedla" in text
    assert "pip install --no-cache-dir --upgrade pip" in text
    assert "python3 -m pip" not in text
    for part in ("-v /etc/nv_tegra_release:/etc/nv_tegra_release:ro", "/tmp/nv_jetson_model"):
        assert part in text


def test_the_image_context_holds_only_the_wheels_sources() -> None:
    """Without .dockerignore the environments and the history of a checkout became a layer of the image."""
    ignored, *let_in = (x for x in (ROOT / ".dockerignore").read_text().splitlines() if x and x[0] != "#")
    allowed = {line[1:] for line in let_in if line.startswith("!")}
    assert ignored == "*"
    text = (ROOT / "pyproject.toml").read_text()
    wheel = text[text.index("[tool.hatch.build.targets.wheel]") : text.index("[tool.hatch.build.targets.sdist]")]
    read = {"edgedla", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"}
    named = set(re.findall(r'^"([^"]+)" = ', wheel, re.M)) | read
    assert {name.split("/")[0] for name in named} == allowed
    assert all((ROOT / name).exists() for name in named)
