"""trtexec scripts: one plan on four releases, existing options only, quoting, and notes on what is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.builder.plan.plan import BuildPlan, IoPlan, LayerPlan, Pools
from edgedla.builder.trtexec import options as option_table
from edgedla.builder.trtexec.options import options_of
from edgedla.builder.trtexec.script import trtexec_script
from edgedla.errors import RuleError
from edgedla.io.data import rules_dir
from tests.amounts import examples

RELEASES = [(8, 5, 2), (8, 6, 2), (10, 3, 0), (11, 4, 1)]
BASH = shutil.which("bash")


def text_of(release: tuple) -> str:
    return ".".join(str(n) for n in release)


@pytest.mark.parametrize("mode", ["hybrid", "standalone"])
@pytest.mark.parametrize("release", RELEASES, ids=text_of)
def test_trtexec_scripts_of_four_releases_match_their_golden_files(
    release: tuple, mode: str, plan_for: Callable[..., BuildPlan], golden: Callable[[str, str], None]
) -> None:
    plan = plan_for("10.3.0", mode, "int8")
    script = trtexec_script(plan, release)
    golden(f"builder/trtexec-{text_of(release)}-{mode}.sh", script.text)
    for said in script.unsaid:
        assert f"# NOT EXPRESSED: {said}" in script.text


def options_in(text: str) -> set:
    return set(re.findall(r"^  (--\w+)", text, re.M))


@pytest.mark.parametrize("mode", ["hybrid", "standalone"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_scripts_use_only_options_of_their_release(
    precision: str, mode: str, plan_for: Callable[..., BuildPlan], shared: Path
) -> None:
    help_of: Dict[str, Any] = yaml.safe_load((shared / "facts/trtexec-flags.yaml").read_text())
    for read in help_of:
        release = tuple(int(n) for n in read.split("."))
        plan = plan_for("10.3.0", mode, precision, sparsity=True)
        used = options_in(trtexec_script(plan, release).text)
        assert used <= set(help_of[read]), f"{read}: {used - set(help_of[read])}"


def test_the_option_table_equals_the_published_help(shared: Path) -> None:
    help_of: Dict[str, Any] = yaml.safe_load((shared / "facts/trtexec-flags.yaml").read_text())
    table = yaml.safe_load((rules_dir() / "trtexec.yaml").read_text())
    assert table["read"] == list(help_of)
    for read, names in help_of.items():
        ours = set(options_of(tuple(int(n) for n in read.split("."))).names)
        theirs = {n for n in names if n in table["options"]}
        # --int8 is left in 11.1's help by oversight.
        assert ours == theirs - ({"--int8"} if read == "11.1" else set()), read


def test_an_unrecorded_release_uses_the_options_of_the_older_one() -> None:
    assert options_of((10, 5, 0)).read == "10.3"
    assert options_of((11, 4, 1)).read == "11.1"
    assert "--fp16" not in options_of((11, 4, 1))
    assert "--layerDeviceTypes" not in options_of((8, 5, 2))


def test_settings_that_a_release_cannot_express_are_named(plan_for: Callable[..., BuildPlan]) -> None:
    plan = plan_for("10.3.0", "hybrid", "int8")
    layers = tuple(replace(x, device="GPU") if x.name == "conv" else x for x in plan.layers)
    unsaid = "\n".join(trtexec_script(replace(plan, layers=layers), (8, 5, 2)).unsaid)
    # softmax falls back by itself; conv would not.
    assert "TensorRT decides over: conv" in unsaid
    assert "softmax" not in unsaid
    assert "edgedla fix MODEL --trt 11.4.1" in "\n".join(trtexec_script(plan, (11, 4, 1)).unsaid)
    standalone = "\n".join(trtexec_script(plan_for("10.3.0", "standalone"), (8, 5, 2)).unsaid)
    assert "--buildDLAStandalone: arrives with 8.6" in standalone
    late = trtexec_script(plan_for("10.3.0", "standalone"), (8, 6, 2)).unsaid
    assert not any("refuses it" in text for text in late)


def test_io_formats_have_no_type_prefix_from_11_on(plan_for: Callable[..., BuildPlan]) -> None:
    plan = plan_for("10.3.0", "standalone", "fp16")
    assert "--inputIOFormats=fp16:dla_hwc4" in trtexec_script(plan, (10, 3, 0)).text
    assert "--inputIOFormats=dla_hwc4" in trtexec_script(plan, (11, 4, 1)).text


def test_only_dynamic_inputs_get_shapes(plan_for: Callable[..., BuildPlan]) -> None:
    plan = plan_for("10.3.0")
    assert "--shapes" not in trtexec_script(plan).text
    io = tuple(replace(x, dynamic=x.is_input) for x in plan.io)
    assert "--shapes=image:1x3x8x8" in trtexec_script(replace(plan, io=io)).text


def test_a_line_break_in_a_name_does_not_end_its_comment(plan_for: Callable[..., BuildPlan]) -> None:
    plan = replace(plan_for("8.5.2"), model={"name": "net\ntouch /tmp/owned", "sha256": ""})
    assert "\ntouch" not in trtexec_script(plan).text.replace("'net\ntouch", "'")


def test_pools_below_one_mib_keep_their_size(plan_for: Callable[..., BuildPlan]) -> None:
    plan = plan_for("10.3.0")
    small = replace(plan, pools=replace(plan.pools, dla_sram_bytes=1 << 19, workspace_bytes=1 << 31))
    assert "--memPoolSize=workspace:2048,dlaSRAM:0.5,dlaLocalDRAM:1024,dlaGlobalDRAM:512" in trtexec_script(small).text


NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r\0"), min_size=1, max_size=12)


@pytest.mark.skipif(BASH is None, reason="no bash here")
@settings(max_examples=examples(25), deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), NAMES)
def test_any_layer_and_file_name_is_quoted_for_the_shell(layer_names: list, model: str) -> None:
    # --shapes, which a dynamic input needs, takes no name with these marks.
    dynamic = not set(layer_names[0]) & set(",'")
    io = (IoPlan(layer_names[0], True, (1, 3, 8, 8), "HALF", "CHW16", None, dynamic),)
    plan = BuildPlan(
        model={"name": model, "sha256": ""},
        platform={"target": "agx-orin-64gb", "chip": "orin", "trt": "10.3.0"},
        mode="hybrid",
        precision="fp16",
        dla_core=0,
        gpu_fallback=True,
        strongly_typed=False,
        layers=tuple(LayerPlan(n, "CONVOLUTION", "GPU") for n in layer_names),
        io=io,
        pools=Pools(1 << 20, 1 << 30, 1 << 29),
    )
    text = trtexec_script(plan).text.replace("mkdir -p", ": mkdir").replace(' 2>&1 | tee "$OUT/build.log"', "")
    done = subprocess.run(
        ["bash", "-c", text],
        env={"TRTEXEC": "/usr/bin/printf", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=False,
    )
    assert b"syntax" not in done.stderr
    # A comma ends an entry, a quote is one to trtexec, and '*' hits other layers, which then stand there too.
    sayable = [n for n in layer_names if not set(n) & set(",'*")]
    if sayable:
        wanted = {f"{n}:GPU" for n in sayable}
        arguments = subprocess.run(
            ["bash", "-c", text.replace('"$TRTEXEC" "${arguments[@]}"', "printf '%s\\0' \"${arguments[@]}\"")],
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            check=True,
        ).stdout.decode()
        option = next(a for a in arguments.split("\0") if a.startswith("--layerDeviceTypes="))
        assert wanted <= set(option.partition("=")[2].split(","))


@pytest.mark.skipif(BASH is None, reason="no bash here")
@pytest.mark.parametrize("release", RELEASES, ids=text_of)
def test_scripts_pass_bash_and_run_trtexec_with_the_model(
    release: tuple, plan_for: Callable[..., BuildPlan], tmp_path: Path
) -> None:
    fake = tmp_path / "trtexec"
    fake.write_text('#!/bin/sh\nfor a in "$@"; do echo "$a"; done\n')
    fake.chmod(0o755)
    script = tmp_path / "build.sh"
    script.write_text(trtexec_script(plan_for("10.3.0", "hybrid", "int8"), release).text)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    out = tmp_path / "out dir"
    done = subprocess.run(
        ["bash", str(script), "my net.onnx", str(out)],
        env={"TRTEXEC": str(fake), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert "--onnx=my net.onnx" in done.stdout.decode().splitlines()
    assert (out / "build.log").exists()
    if release < (11,):
        assert (out / "calib.cache").read_text().startswith("TRT-")
        assert len((out / "calib.cache").read_text().splitlines()) == 5


def with_layers(plan: BuildPlan, **devices: str) -> BuildPlan:
    return replace(plan, layers=tuple(LayerPlan(n, "CONVOLUTION", d, None, "dla", (n,)) for n, d in devices.items()))


def option(text: str, name: str) -> str:
    import shlex

    line = next((line for line in text.splitlines() if line.startswith(f"  {name}=")), f"  {name}=")
    return shlex.split(line)[0].partition("=")[2]


@pytest.mark.parametrize(
    ("release", "name", "expressed"),
    [
        ((8, 6, 1), "a:b:c", True),
        ((10, 3, 0), "a:b:c", True),
        ((11, 4, 1), "a:b:c", True),
        ((8, 6, 1), "a,b", False),
        ((11, 4, 1), "a,b", False),
        ((8, 6, 1), "it's", False),
        ((10, 7, 0), "it's", False),
        ((11, 4, 1), "it's", True),
        ((8, 6, 1), "a b$(x)", True),
    ],
)
def test_layer_names_that_trtexec_cannot_take_are_named(
    release: tuple, name: str, expressed: bool, plan_for: Callable[..., BuildPlan]
) -> None:
    script = trtexec_script(with_layers(plan_for("10.3.0"), **{name: "GPU", "other": "DLA0"}), release)
    assert (option(script.text, "--layerDeviceTypes") == f"{name}:GPU") is expressed
    assert any("cannot be written" in text and name in text for text in script.unsaid) is not expressed


def test_a_star_in_a_layer_name_matches_no_other_layer(plan_for: Callable[..., BuildPlan]) -> None:
    """From 9 on '*' stands for any text, tried after exact names (samples/common, matchStringWithOneWildcard)."""
    plan = with_layers(plan_for("10.3.0"), **{"scale*1": "GPU", "scale_2_1": "DLA0", "scale_2_2": "DLA0"})
    assert option(trtexec_script(plan, (8, 6, 1)).text, "--layerDeviceTypes") == "scale*1:GPU"
    assert option(trtexec_script(plan, (10, 3, 0)).text, "--layerDeviceTypes") == "scale*1:GPU,scale_2_1:DLA"
    # Of precisions no value is known that changes nothing.
    precise = replace(plan, layers=(replace(plan.layers[0], precision="fp16"), *plan.layers[1:]))
    script = trtexec_script(precise, (10, 3, 0))
    assert option(script.text, "--layerPrecisions") == ""
    assert any("scale*1: they would also hit scale_2_1" in text for text in script.unsaid)
    unnamed = with_layers(plan_for("10.3.0"), **{"(Unnamed Layer* 3) [X]": "GPU", "(Unnamed Layer* 13) [X]": "DLA0"})
    assert option(trtexec_script(unnamed, (10, 3, 0)).text, "--layerDeviceTypes") == "(Unnamed Layer* 3) [X]:GPU"


FORMATS = {
    (8, 4, 1): ("int8:chw4", "int8:chw"),
    (8, 5, 1): ("int8:chw4", "int8:chw"),
    (8, 5, 2): ("int8:chw4", "int8:chw"),
    (8, 5, 3): ("int8:chw4", "int8:dla_linear"),
    (8, 6, 0): ("int8:chw4", "int8:dla_linear"),
    (8, 6, 1): ("int8:dla_hwc4", "int8:dla_linear"),
    (10, 3, 0): ("int8:dla_hwc4", "int8:dla_linear"),
    (10, 7, 0): ("int8:dla_hwc4", "int8:dla_linear"),
    (11, 4, 1): ("dla_hwc4", "dla_linear"),
}


@pytest.mark.parametrize("release", FORMATS, ids=text_of)
def test_standalone_io_formats_use_the_patch_releases_names(release: tuple, plan_for: Callable[..., BuildPlan]) -> None:
    text = trtexec_script(plan_for("10.3.0", "standalone", "int8"), release).text
    assert (option(text, "--inputIOFormats"), option(text, "--outputIOFormats")) == FORMATS[release]
    renamed = "under the older name" in text
    assert renamed is (release < (8, 6, 1))


def test_hwc4_is_for_inputs_only(plan_for: Callable[..., BuildPlan]) -> None:
    plan = plan_for("10.3.0", "standalone", "int8")
    plan = replace(plan, io=(plan.io[0], replace(plan.io[1], format="DLA_HWC4")))
    unsaid = trtexec_script(plan, (10, 3, 0)).unsaid
    assert any(text.startswith("probabilities as DLA_HWC4: this trtexec refuses it") for text in unsaid)


@pytest.mark.parametrize("release", [(8, 4, 1), (8, 5, 2), (8, 6, 1)], ids=text_of)
@pytest.mark.parametrize("same", [True, False])
def test_more_int8_outputs_than_inputs_before_8_6_1_share_one_format(
    release: tuple, same: bool, plan_for: Callable[..., BuildPlan]
) -> None:
    plan = plan_for("10.3.0", "standalone", "int8")
    second = replace(plan.io[1], name="second", format="DLA_LINEAR" if same else "CHW32")
    script = trtexec_script(replace(plan, io=(*plan.io, second)), release)
    formats = option(script.text, "--outputIOFormats").split(",")
    if release >= (8, 6, 1):
        assert len(formats) == 2
    elif same:
        assert formats == ["int8:chw"]
    else:
        assert formats == [""]
        assert any(text.startswith("--outputIOFormats=int8:chw,int8:chw32") for text in script.unsaid)


def test_standalone_scripts_of_8_5_explain_the_harmless_last_error(plan_for: Callable[..., BuildPlan]) -> None:
    texts = {r: trtexec_script(plan_for("10.3.0", "standalone"), r).text for r in RELEASES}
    assert [r for r, text in texts.items() if "kDLA_STANDALONE' and PASSED" in text] == [(8, 5, 2)]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("--fp16: {first:", "--fp16: {frist:", "unknown key 'frist'"),
        ('--calib: {first: "8.2"', "--calib: {first: 8.2", "text"),
        ('--calib: {first: "8.2"', '--calib: {first: "eight"', "'eight' is not a version"),
        ("--onnx:", "onnx:", "'onnx' is not an option"),
        ("inputs: [LINEAR, CHW4", "inputs: [LINEAR, CHW5", "unknown format 'CHW5'"),
        ('last: "8.5.2"', 'last: "8.3"', "the last release is before the first"),
        ("older_names:", "oldest_names:", "oldest_names"),
    ],
)
def test_the_option_table_is_read_strictly(
    old: str, new: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (rules_dir() / "trtexec.yaml").read_text()
    assert old in text
    (tmp_path / "trtexec.yaml").write_text(text.replace(old, new, 1))
    monkeypatch.setattr(option_table, "rules_dir", lambda: tmp_path)
    option_table._table.cache_clear()
    try:
        with pytest.raises(RuleError, match=says) as wrong:
            options_of((10, 3, 0))
        assert "trtexec.yaml:" in (wrong.value.where or "")
    finally:
        option_table._table.cache_clear()
