"""Pool sizes: shares of the SRAM, trtexec's spelling, text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.builder.plan.pools import choose_pools, format_size, parse_pools, power_of_two_below
from edgedla.errors import UsageError
from edgedla.targets import platform_for


@given(st.sampled_from(["agx-orin-64gb", "orin-nx-8gb", "agx-xavier-64gb", "xavier-nx-8gb"]), st.integers(1, 256))
def test_concurrent_engines_fit_the_hardware_with_powers_of_two(target: str, engines: int) -> None:
    platform = platform_for(target)
    pools = choose_pools(platform, engines)
    assert pools.dla_sram_bytes * engines <= platform.module.sram_bytes
    for size in (pools.dla_sram_bytes, pools.dla_local_dram_bytes, pools.dla_global_dram_bytes):
        assert size >= 4096
        assert size & (size - 1) == 0


@pytest.mark.parametrize(
    ("target", "trt", "engines", "subgraphs", "sram_kib"),
    [
        ("agx-orin-64gb", "8.5.2", 1, 1, 1024),
        ("agx-orin-64gb", "8.5.2", 1, 2, 512),
        ("agx-orin-64gb", "8.6.2", 2, 5, 256),
        ("agx-orin-64gb", "10.3.0", 1, 5, 1024),
        ("agx-xavier-64gb", "8.5.2", 1, 5, 1024),
        ("agx-xavier-64gb", "8.5.2", 4, 5, 512),
        ("agx-orin-64gb", "8.5.2", 256, 2, 4),
    ],
)
def test_several_subgraphs_of_an_engine_share_twice_the_pool_before_9(
    target: str, trt: str, engines: int, subgraphs: int, sram_kib: int
) -> None:
    pools = choose_pools(platform_for(target, trt=trt), engines, subgraphs=subgraphs)
    assert pools.dla_sram_bytes == sram_kib * 1024


def test_more_engines_than_sram_are_refused() -> None:
    with pytest.raises(UsageError, match="leave .* bytes of SRAM each"):
        choose_pools(platform_for("agx-orin-64gb"), 257)
    with pytest.raises(UsageError, match="0 concurrent"):
        choose_pools(platform_for("agx-orin-64gb"), 0)


@given(st.integers(1, 1 << 40))
def test_power_of_two_below_is_the_largest_not_above_the_size(size: int) -> None:
    found = power_of_two_below(size)
    assert found <= size < 2 * found


@pytest.mark.parametrize(
    ("text", "pools"),
    [
        ("", {}),
        ("dlaSRAM:1", {"dla_sram_bytes": 1 << 20}),
        ("dlaSRAM:0.5,dlaLocalDRAM:512M", {"dla_sram_bytes": 1 << 19, "dla_local_dram_bytes": 512 << 20}),
        ("dla_sram:512K,workspace:2G", {"dla_sram_bytes": 512 << 10, "workspace_bytes": 2 << 30}),
        ("dlaGlobalDRAM:4096B", {"dla_global_dram_bytes": 4096}),
    ],
)
def test_pool_sizes_are_parsed_in_trtexecs_spelling(text: str, pools: dict) -> None:
    assert parse_pools(text) == pools


@pytest.mark.parametrize("text", ["sram2:1", "dlaSRAM", "dlaSRAM:-1", "dlaSRAM:1,dlaSRAM:2", "dlaSRAM:x"])
def test_invalid_pool_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pools(text)


def test_pool_sizes_are_formatted_with_units() -> None:
    assert [format_size(s) for s in (None, 4096, 1 << 20, 3 << 30, 1000)] == [
        "TensorRT's default",
        "4 KiB",
        "1 MiB",
        "3 GiB",
        "1000 B",
    ]
