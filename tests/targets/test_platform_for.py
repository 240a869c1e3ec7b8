"""platform_for: names, versions, and the pairs without DLA."""

from __future__ import annotations

import copy
import importlib
import pickle
import shutil
from pathlib import Path

import pytest

from edgedla.costs.engines import multiprocessors
from edgedla.errors import RuleError, UsageError
from edgedla.targets import VersionRange, module_ids, modules, parse_version, platform_for, releases
from edgedla.targets.board import MODELS, PARTS, SIZES_GB
from edgedla.targets.modules import module_for

NAMES = (
    "agx-orin-32gb agx-orin-64gb agx-thor-t5000 agx-xavier-32gb agx-xavier-64gb orin-nano-4gb orin-nano-8gb "
    "orin-nx-16gb orin-nx-8gb xavier-nx-16gb xavier-nx-8gb"
).split()


NEWEST_10 = ".".join(str(n) for n in max(row.version for row in releases().tensorrt if row.version[0] == 10))


def test_every_documented_module_is_a_target():
    assert sorted(set(NAMES) - set(module_ids())) == []
    assert [m.id for m in modules().values()] == list(module_ids()) == sorted(module_ids())


def test_a_board_of_every_module_is_recognised():
    # A name that stands in SIZES_GB is a family: the board's memory tells which of its modules it is.
    told = {f"{family}-{size}gb" for family, sizes in SIZES_GB.items() for size in sizes}
    told |= {name for name in (*PARTS.values(), *(name for _, name in MODELS)) if name not in SIZES_GB}
    assert sorted(set(module_ids()) - told) == [], "edgedla/targets/board.py: add its size to SIZES_GB, its part to PARTS"
    assert sorted(told - set(module_ids())) == [], "edgedla/targets/board.py names them, rules/targets/ has no such file"


@pytest.mark.parametrize("name", module_ids())
def test_the_default_release_of_a_module_is_one_of_its_family(name):
    module = modules()[name]
    rows = [row for row in releases().jetpack if row.version == module.default_jetpack]
    assert rows, f"rules/targets/{name}.yaml: releases.yaml has no JetPack {module.default_jetpack}"
    assert module.family in rows[0].families, f"releases.yaml: JetPack {module.default_jetpack} is not for {module.family}"


@pytest.mark.parametrize("name", module_ids())
def test_every_module_has_engines_whose_costs_are_known(name):
    assert multiprocessors(modules()[name]) > 0


@pytest.mark.parametrize(
    ("asked", "version"), [("10.3", (10, 3, 0)), ("10.3.0", (10, 3, 0)), ("10.3.0.30", (10, 3, 0, 30)), ("10.7", (10, 7, 0))]
)
def test_short_and_long_tensorrt_versions_mean_the_same_release(asked, version):
    assert platform_for("agx-orin-64gb", trt=asked).release.trt == version


@pytest.mark.parametrize(("asked", "version"), [("8.5.2", (8, 5, 2)), ("8.5", (8, 5, 2)), ("8.5.2.2", (8, 5, 2, 2))])
def test_short_and_long_versions_on_xavier(asked, version):
    platform = platform_for("xavier", trt=asked)
    assert platform.release.trt == version
    assert platform.has_dla


@pytest.mark.parametrize(
    ("alias", "name"), [("xavier", "agx-xavier-32gb"), ("orin", "agx-orin-64gb"), ("Jetson AGX Orin", "agx-orin-64gb")]
)
def test_module_aliases_resolve_to_their_module(alias, name):
    assert platform_for(alias).module.id == name


@pytest.mark.parametrize(
    ("target", "jetpack", "trt", "status", "reason"),
    [
        ("agx-orin-64gb", "6.2", None, "yes", None),
        ("orin-nx-8gb", None, "8.5.2", "yes", None),
        ("agx-orin-64gb", None, "11.4.1", "yes", None),
        ("xavier-nx-8gb", "4.6.1", None, "yes", None),
        ("agx-orin-64gb", None, "8.4", "yes", None),
        ("orin-nano-8gb", "6.2", None, "no", "no DLA core"),
        ("agx-thor-t5000", "7.0", None, "no", "no DLA hardware"),
        ("agx-orin-64gb", None, "10.8", "no", "10.7"),
        ("agx-orin-64gb", "7.2", None, "no", "10.7"),
        ("agx-orin-64gb", None, "11.3", "no", "11.4.1"),
        ("agx-orin-64gb", None, "11.4.0", "no", "Windows"),
        ("xavier", None, "8.6", "no", "8.5.2"),
        ("xavier", "6.2", None, "no", "JetPack 5"),
        ("orin-nx-16gb", None, "8.4", "no", "JetPack 5.1"),
        ("agx-orin-64gb", "4.6", None, "no", "JetPack 5.0"),
        ("orin-nx-16gb", None, "11.4.1", "unknown", "not documented"),
    ],
)
def test_pairs_of_target_and_release_have_dla_status_and_reason(target, jetpack, trt, status, reason):
    platform = platform_for(target, jetpack, trt)
    assert platform.dla_status == status
    assert platform.has_dla == (status == "yes")
    if reason is None:
        assert platform.no_dla is None
    else:
        assert reason in platform.no_dla
    assert platform.to_dict()["no_dla_reason"] == platform.no_dla


def test_release_tables_name_existing_families_and_releases():
    families = {m.family for m in modules().values()}
    table = releases()
    assert {f for row in table.jetpack for f in row.families} == families, "jetpack of releases.yaml names each family"
    assert {f for row in table.dla for f in row.families} == families, "dla of releases.yaml names each family"
    known = {t.version for t in table.tensorrt}
    assert {v for row in table.jetpack for v in (row.trt, *row.also)} <= known


def test_releases_are_in_ascending_order():
    for rows in (releases().tensorrt, releases().jetpack):
        numbers = [parse_version(row.version) if isinstance(row.version, str) else row.version for row in rows]
        assert numbers == sorted(numbers), "releases.yaml: the oldest release comes first"


def test_every_dla_entry_of_the_releases_ends_where_its_source_does():
    endless = [row.families for row in releases().dla if row.answer == "yes" and row.trt.high is None]
    assert endless == [], "dla of releases.yaml: a `yes` ends (trt: {to: ...}) where its source does"


def test_platforms_can_be_copied_and_sent_to_another_process():
    platform = platform_for("orin")
    assert pickle.loads(pickle.dumps(platform)) == platform == copy.deepcopy(platform)


def test_without_a_release_the_module_default_holds():
    assert platform_for("orin").release.jetpack == "6.2.2"
    assert platform_for("orin").release.trt == (10, 3, 0)
    assert platform_for("xavier").release.trt == (8, 5, 2)


@pytest.mark.parametrize("name", module_ids())
def test_default_releases_have_a_dla_where_the_module_has_one(name):
    platform = platform_for(name)
    assert platform.has_dla == (platform.module.dla_cores > 0)


def test_jetpack_brings_l4t_and_dla_software():
    release = platform_for("orin", jetpack="6.0").release
    assert (release.trt, release.l4t, release.dla_software) == ((8, 6, 2), ("36.2.0", "36.3.0"), "3.14.1")
    assert platform_for("orin", jetpack="6.0", trt="10.7").release.dla_software is None


@pytest.mark.parametrize(
    ("target", "jetpack", "trt", "words"),
    [
        ("agx-orine", None, None, "did you mean agx-orin"),
        ("orin", None, "10.33", "Did you mean 10.3.0"),
        ("orin", None, "10", f"Name the second number too, 10.0.1 to {NEWEST_10}."),
        ("orin", "8", None, "unknown JetPack"),
        ("orin", None, "9.1.0", "unknown TensorRT"),
        ("orin", None, "13.0.1", "unknown TensorRT"),
        ("orin", "6.3", None, "Did you mean 6.2.3"),
        ("orin", "6.2", "8.5", "does not carry"),
        ("orin", None, "ten", "unknown TensorRT"),
    ],
)
def test_unknown_targets_and_releases_list_the_known_ones(target, jetpack, trt, words):
    with pytest.raises(UsageError) as caught:
        platform_for(target, jetpack, trt)
    assert words in str(caught.value)
    assert caught.value.allowed


@pytest.mark.parametrize(
    ("trt", "jetpack", "note"),
    [
        ("8.5.3", None, "TensorRT 8.5.3 is not on record: the rules of 8.5.2 answer"),
        ("8.5.3.1", None, "TensorRT 8.5.3.1 is not on record: the rules of 8.5.2 answer"),
        ("10.0.0", None, "TensorRT 10.0.0 is not on record: the rules of 10.0.1 answer"),
        ("10.3.9", "6.2", "TensorRT 10.3.9 is not on record: the rules of 10.3.0 answer"),
        ("10.3.0.30", "6.2", ""),
        ("10.17.0", None, "TensorRT 10.17.0 is not on record: the rules of 10.16.2 answer"),
        ("8.5", None, ""),
    ],
)
def test_a_patch_that_is_not_on_record_is_answered_by_its_neighbour(trt, jetpack, note):
    """NVIDIA publishes patches of its own for PCs and containers: 8.5.3, 10.13.3."""
    platform = platform_for("agx-orin-64gb", jetpack, trt)
    assert platform.release.note == note
    listed = note.split(" of ")[-1].split()[0] if note else trt
    assert platform.has_dla == platform_for("agx-orin-64gb", trt=listed).has_dla
    if "." in trt[3:]:
        assert ".".join(map(str, platform.release.trt)) == trt


@pytest.mark.parametrize(
    ("jetpack", "trt", "answered_by", "note"),
    [
        (None, "11.6", "11.6.0", "TensorRT 11.6.0 is not on record: the rules of 11.5.0 answer"),
        (None, "12.0.1.5", "12.0.1.5", "TensorRT 12.0.1.5 is not on record: the rules of 11.5.0 answer"),
        ("7.3", None, "11.4.1", "JetPack 7.3 is not on record: 7.2.2 answers"),
        ("L4T 39.2.2", None, "11.4.1", "L4T 39.2.2 is not on record: JetPack 7.2.2 answers"),
        ("r36.4.5", None, "10.3.0", "L4T 36.4.5 is not on record: JetPack 6.2.1 answers"),
        ("7.2.1", None, "10.16.2", ""),
    ],
)
def test_a_release_newer_than_the_table_is_answered_by_the_newest(jetpack, trt, answered_by, note):
    release = platform_for("agx-orin-64gb", jetpack, trt).release
    assert (release.trt_text, release.note) == (answered_by, note)


def test_what_no_source_says_of_a_newer_tensorrt_is_unknown_and_of_thor_no():
    assert platform_for("agx-orin-64gb", trt="11.4.2").dla_status == "yes"
    assert {platform_for("agx-orin-64gb", trt=t).dla_status for t in ("11.5", "11.6", "12.0")} == {"unknown"}
    assert platform_for("thor", trt="11.6").dla_status == "no"
    assert platform_for("agx-orin-64gb", jetpack="7.2.1").dla_status == "no"


def test_every_pair_of_module_and_release_has_a_dla_status():
    for name in module_ids():
        for release in releases().tensorrt:
            platform = platform_for(name, trt=".".join(map(str, release.version)))
            assert platform.dla_status in ("yes", "no", "unknown")
            assert platform.has_dla or platform.no_dla
        for jetpack in releases().jetpack:
            assert platform_for(name, jetpack=jetpack.version).dla_status in ("yes", "no", "unknown")


def test_power_modes_have_one_clock_a_core_and_cores_can_differ():
    low = platform_for("orin-nx-16gb").module.power_modes["10W"]
    assert low.dla_mhz == (153.6, 115.2)
    assert platform_for("orin-nx-8gb").module.power_modes["10W"].dla_mhz == (153.6,)
    assert platform_for("orin").module.default_power_mode == "MAXN"
    assert platform_for("xavier-nx-8gb").module.default_power_mode == "20W"
    assert platform_for("orin-nano-8gb").module.default_power_mode == "15W"


def test_super_modes_raise_the_clocks_of_both_engines():
    plain, fast = (platform_for("orin-nx-8gb").module.power_modes[name] for name in ("MAXN", "MAXN_SUPER"))
    assert (plain.dla_mhz, plain.gpu_mhz) == ((614.4,), 765)
    assert (fast.dla_mhz, fast.gpu_mhz) == ((1230,), 1173)
    # nvpmodel's file of the 8 GB module caps its one core higher than that of the 16 GB module caps its two.
    capped = {size: platform_for(f"orin-nx-{size}").module.power_modes["40W_SUPER"].dla_mhz for size in ("8gb", "16gb")}
    assert capped == {"8gb": (1203.2,), "16gb": (908.8, 908.8)}


@pytest.mark.parametrize(
    ("target", "mode", "units"),
    [
        ("orin-nx-16gb", "25W", 8),
        ("orin-nx-16gb", "15W", 4),
        ("orin-nx-8gb", "10W_SUPER", 4),
        ("orin-nano-8gb", "7W", 4),
        ("agx-xavier-32gb", "10W", 4),
    ],
)
def test_low_power_modes_switch_half_of_the_gpu_off(target, mode, units):
    assert multiprocessors(platform_for(target).module, mode) == units


def test_every_power_mode_states_all_clocks_but_one_that_no_source_states():
    unstated = [
        f"{module.id} {mode.name}"
        for module in modules().values()
        for mode in module.power_modes.values()
        if None in (*mode.dla_mhz, mode.gpu_mhz, mode.emc_mhz)
    ]
    assert unstated == ["agx-orin-32gb MAXN_SUPER"]


@pytest.mark.parametrize(
    ("low", "high", "version", "inside"),
    [
        ("8.4", "8.5", "8.5.2.2", True),
        ("8.4", "8.5", "8.6", False),
        ("10.4", None, "10.3.0.30", False),
        ("10.3.0", None, "10.3", True),
        (None, "10.7", "10.7.0.23", True),
        (None, "10", "10.16.1", True),
        (None, "10", "11.0", False),
    ],
)
def test_version_ranges_include_patch_releases_of_their_end(low, high, version, inside):
    span = VersionRange(parse_version(low) if low else None, parse_version(high) if high else None)
    assert span.contains(parse_version(version)) is inside


def test_overlapping_version_ranges_are_detected():
    assert VersionRange((8, 4), (8, 5)).overlaps(VersionRange((8, 5, 2), None))
    assert not VersionRange((8, 4), (8, 5)).overlaps(VersionRange((8, 6), None))


@pytest.mark.parametrize(
    ("target", "jetpack", "newest"), [("orin", "6", "6.2.3"), ("orin", "jp7", "7.2.2"), ("xavier", "5", "5.1.6")]
)
def test_a_major_jetpack_alone_means_its_newest_release(target, jetpack, newest):
    assert platform_for(target, jetpack=jetpack).release.jetpack == newest


@pytest.mark.parametrize(
    ("words", "module"),
    [
        ("orin-agx", "agx-orin-64gb"),
        ("nx-orin", "orin-nx-16gb"),
        ("64gb-agx-orin", "agx-orin-64gb"),
        ("Orin AGX 32GB", "agx-orin-32gb"),
        ("nx xavier", "xavier-nx-8gb"),
    ],
)
def test_the_words_of_a_modules_name_stand_in_any_order(words, module):
    assert module_for(words).id == module


def test_without_a_name_it_is_the_jetson_that_asks_and_elsewhere_a_common_module(tmp_path, monkeypatch):
    assert platform_for() == platform_for("agx-orin-64gb")
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path))
    for name, text in (
        ("etc/nv_tegra_release", "# R36 (release), REVISION: 3.0"),
        ("proc/device-tree/model", "NVIDIA Jetson AGX Orin"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match="cannot tell which module"):
        platform_for()
    (tmp_path / "proc/device-tree/compatible").write_text("nvidia,p3509-0000+p3767-0000\0nvidia,tegra234\0")
    assert platform_for() == platform_for("orin-nx-16gb", "6.0")
    assert platform_for(jetpack="6.2") == platform_for("orin-nx-16gb", "6.2")


@pytest.mark.parametrize(("target", "jetpack", "trt"), [(5, None, None), ("orin", 6.2, None), ("orin", None, 10.3)])
def test_a_release_that_is_no_text_is_refused(target, jetpack, trt):
    with pytest.raises(UsageError, match=r"of type (int|float)"):
        platform_for(target, jetpack=jetpack, trt=trt)


@pytest.mark.parametrize("alias", ["orin-nx", "orin-nx-16gb"])
def test_an_alias_of_two_modules_is_refused(alias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target is written by copying another: its aliases come along."""
    table = importlib.import_module("edgedla.targets.modules")
    folder = tmp_path / "targets"
    shutil.copytree(table.rules_dir() / "targets", folder)
    copied = (folder / "orin-nx-16gb.yaml").read_text().replace("id: orin-nx-16gb", "id: orin-nx-12gb")
    (folder / "orin-nx-12gb.yaml").write_text(copied.replace("aliases: [orin-nx]", f"aliases: [{alias}]"))
    monkeypatch.setattr(table, "rules_dir", lambda: tmp_path)
    found = (table.modules, table.module_ids, table._load)
    try:
        for cached in found:
            cached.cache_clear()
        with pytest.raises(RuleError, match="is already a name"):
            table.modules()
    finally:
        for cached in found:
            cached.cache_clear()
