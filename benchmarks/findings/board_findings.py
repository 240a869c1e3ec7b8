"""The review's findings of version 0.1 on the board: each fails there, and has a test that passes here.

A checkout of 0.1 (git worktree) runs reproducers.py, one finding a process; then the tests run here. Numbers as in the review;
number 1 became 28.

usage: python benchmarks/findings/board_findings.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
REPRODUCERS = Path(__file__).with_name("reproducers.py")
VERSION_0_1 = "8d4fd2e"
BOARDS, CUDLA, ON_BOARDS = (
    "tests/runtime/test_boards.py",
    "tests/runtime/test_cudla.py",
    "tests/builder/test_tensorrt_on_boards.py",
)
PACKAGES, TRTEXEC = "tests/jetson/test_setup_packages.py", "tests/builder/test_trtexec.py"
TESTS = {
    2: f"{CUDLA}::test_an_inference_takes_the_tensors_in_the_loadables_own_order",
    3: f"{BOARDS}::test_a_jetson_in_a_container_is_detected_by_its_device_files",
    4: f"{PACKAGES}::test_a_fresh_board_gets_what_tensorrt_cudla_and_pycuda_need",
    5: f"{PACKAGES}::test_base_images_of_all_releases_are_documented",
    6: f"{PACKAGES}::test_the_image_installs_into_an_environment_with_its_own_pip",
    7: f"{CUDLA}::test_buffers_are_copied_if_mapped_memory_fails",
    8: f"{ON_BOARDS}::test_the_engine_inspector_is_deleted_before_its_engine",
    9: f"{ON_BOARDS}::test_a_planned_layer_absent_by_name_is_logged_and_the_build_goes_on",
    10: "tests/runtime/test_tegrastats.py::test_total_module_power_is_summed_from_its_rails",
    11: f"{BOARDS}::test_the_power_mode_follows_the_kernels_clock_caps",
    12: f"{BOARDS}::test_locked_clocks_give_no_warning",
    13: f"{BOARDS}::test_throttling_at_the_first_sample_gives_a_warning",
    14: f"{TRTEXEC}::test_standalone_io_formats_use_the_patch_releases_names",
    15: f"{TRTEXEC}::test_more_int8_outputs_than_inputs_before_8_6_1_share_one_format",
    16: f"{BOARDS}::test_the_module_is_identified_by_part_number_on_any_carrier",
    17: f"{PACKAGES}::test_the_service_gives_nvcc_a_writable_tmpdir",
    18: "tests/runtime/test_jetson_pipelines.py::test_on_a_jetson_nvvidconv_scales_and_rotates",
    19: "tests/runtime/test_cuda_driver.py::test_streams_do_not_wait_for_the_default_stream",
    20: f"{CUDLA}::test_the_dlas_own_error_is_reported_when_the_stream_fails",
    21: f"{CUDLA}::test_after_a_lost_device_no_runner_of_the_process_takes_work",
    22: f"{ON_BOARDS}::test_ctrl_c_stops_a_build_although_tensorrt_swallows_it",
    23: f"{PACKAGES}::test_jetpacks_opencv_is_not_replaced",
    24: f"{TRTEXEC}::test_layer_names_that_trtexec_cannot_take_are_named",
    25: f"{ON_BOARDS}::test_one_tensorrt_logger_is_shared_by_all_builds",
    26: f"{BOARDS}::test_the_warning_names_the_faster_power_modes_number",
    27: f"{CUDLA}::test_a_loadable_of_another_network_is_refused_naming_both_bindings",
    28: f"{ON_BOARDS}::test_int8_bindings_get_a_dynamic_range_with_cache_or_ranges",
    29: "tests/rules/test_message_catalogue.py::test_each_example_is_explained_by_its_own_entry",
}


def at_0_1() -> Dict[int, str]:
    """How each finding shows in a checkout of 0.1; "" where it does not."""
    with tempfile.TemporaryDirectory(prefix="edgedla-0.1-") as name:
        checkout = Path(name) / "edgedla"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(checkout), VERSION_0_1], check=True)
        try:
            return {n: _shows(n, checkout) for n in TESTS}
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)


def _shows(number: int, checkout: Path) -> str:
    command = [sys.executable, str(REPRODUCERS), str(number)]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.strip() if done.returncode == 1 else ""


def passed_here() -> Dict[str, int]:
    """Passed cases of each test in this checkout; all must pass."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n", "0", f"--junitxml={report}", *sorted(set(TESTS.values()))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout[-3000:])
        cases = ElementTree.parse(report).iter("testcase")
        return Counter(
            f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '').partition('[')[0]}"
            for case in cases
            if case.find("skipped") is None
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    shows, passed = at_0_1(), passed_here()
    rows: List[Dict[str, Any]] = [
        {"finding": number, "at_0.1": shows[number], "test": test, "cases_passed": passed[test]} for number, test in TESTS.items()
    ]
    text = json.dumps({"commit_of_0.1": VERSION_0_1, "findings": rows}, indent=1)
    sys.stdout.write(text + "\n")
    if a.json:
        Path(a.json).write_text(text + "\n", encoding="utf-8")
    return 0 if all(r["at_0.1"] and r["cases_passed"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
