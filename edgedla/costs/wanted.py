"""Measurements on a board that would narrow the cost model's spreads most, and the script that takes them."""

from __future__ import annotations

from typing import NamedTuple, Tuple

from edgedla.targets.platform import Platform


class Wanted(NamedTuple):
    """One measurement that no published figure replaces.

    Attributes:
        name: as in the script.
        what: what is run, in one line.
        settles: what it tells, and the spread that it would take away.
        lines: of the script, in bash; `$gpu`, `$fp16`, `$int8` are artifacts, `measure NAME COMMAND...` logs rails beside a command.
    """

    name: str
    what: str
    settles: str
    lines: Tuple[str, ...]


def wanted(platform: Platform) -> Tuple[Wanted, ...]:
    """The measurements for a module, the one that settles most first."""
    runs = [_rails(platform)]
    if platform.has_dla:
        runs += [*([_memory_clock(), _int8()] if platform.module.dla_version == 2 else []), _processes()]
    return (*runs, _unlocked())


def _rails(platform: Platform) -> Wanted:
    engines = ("gpu", "fp16") if platform.has_dla else ("gpu",)
    return Wanted(
        "rails",
        "idle, and each engine at full duty, with tegrastats beside",
        "power of GPU and DLA in this mode; energies are ±32 % on AGX Orin 64GB, ±50 % on other Orin, ±100 % elsewhere",
        (
            "measure rails-idle sleep 20",
            *(f'measure rails-{engine} edgedla bench "${engine}" --duration 20' for engine in engines),
        ),
    )


def _memory_clock() -> Wanted:
    return Wanted(
        "memory-clock",
        "one FP16 network on the DLA with the memory at its highest clock and at two thirds of it",
        "whether FP16 on Orin's DLA follows the memory's clock or its own: ±40 % below the highest DLA clock",
        (
            "top=$(cat $emc/max_rate)",
            "for rate in $top $((top * 2 / 3)); do",
            "  echo $rate > $emc/rate; echo 1 > $emc/mrq_rate_locked",
            '  measure memory-$rate edgedla bench "$fp16" --onnx "$model" --export-profile "$out/memory/$rate.json"',
            "done",
            "echo $top > $emc/rate; echo 0 > $emc/mrq_rate_locked",
        ),
    )


def _int8() -> Wanted:
    return Wanted(
        "int8-parts",
        "an INT8 engine with layers on the GPU or in FP16, layer by layer (with a calibration cache as the second argument)",
        "what reformats and FP16 layers of INT8 engines cost: ±60 %, published engines took 1 to 5 times as long",
        (
            'if [ -n "$int8" ]; then',
            '  measure int8 edgedla bench "$int8" --onnx "$model" --export-profile "$out/int8.json"',
            "fi",
        ),
    )


def _processes() -> Wanted:
    return Wanted(
        "processes",
        "the GPU's engine and the DLA's, alone and in two processes at once",
        "whether processes take turns on the GPU by frames or by kernels, and how memory slows both; the range of `--concurrent`",
        (
            'edgedla bench "$gpu" --duration 20 > "$out/beside-gpu.txt" &',
            'measure beside-fp16 edgedla bench "$fp16" --duration 15',
            "wait",
        ),
    )


def _unlocked() -> Wanted:
    return Wanted(
        "clocks",
        "the GPU's engine with locked and with free clocks",
        "how much longer a frame takes without `sudo jetson_clocks`: ±20 % on Orin NX and Nano",
        (
            'measure locked edgedla bench "$gpu" --onnx "$model" --export-profile "$out/gpu.json"',
            'jetson_clocks --restore "$out/clocks"',
            'measure free edgedla bench "$gpu"',
        ),
    )


def script(platform: Platform) -> str:
    """A bash script for the board that takes every measurement in about ten minutes; the same bytes for the same platform."""
    runs = wanted(platform)
    builds = ['edgedla place "$model" --devices GPU --precision fp16 -o "$out/placed/gpu.json"']
    builds.append('gpu=$out/gpu; edgedla build "$model" --placement "$out/placed/gpu.json" -o "$gpu"')
    if platform.has_dla:
        builds.append('fp16=$out/fp16; edgedla build "$model" --precision fp16 -o "$fp16"')
    if any(run.name == "int8-parts" for run in runs):
        builds.append('int8=""')
        builds.append(
            'if [ -n "$calib" ]; then int8=$out/int8; edgedla build "$model" --precision int8 --calib "$calib" -o "$int8"; fi'
        )
    head = f"""#!/bin/bash
# What edgedla's cost model wants to know of a {platform.module.title}: about ten minutes, as root.
# sudo ./wanted.sh MODEL.onnx [CALIBRATION.cache]; results in ./wanted. Written by `edgedla costs wanted -o wanted.sh`.
set -eu
model=$1 calib=${{2:-}} out=wanted emc=/sys/kernel/debug/bpmp/debug/clk/emc
mkdir -p "$out/placed" "$out/memory"
measure() {{ # NAME COMMAND...: the command's output, and tegrastats beside it
  tegrastats --interval 200 > "$out/$1.rails" & rails=$!
  name=$1; shift
  "$@" > "$out/$name.txt" || echo "$name failed" >&2
  kill $rails 2>/dev/null || true
}}
nvpmodel -q > "$out/mode.txt"
jetson_clocks --store "$out/clocks"
trap 'jetson_clocks --restore "$out/clocks"' EXIT
jetson_clocks
"""
    parts = [head, *(f"{line}\n" for line in builds)]
    for run in runs:
        parts.append(
            f"\n# {run.name}: {run.what}\n# settles: {run.settles}\n" + "".join(f"{line}\n" for line in run.lines)
        )
    parts.append('\necho "now: edgedla costs fit $model $(printf -- "--evidence %s " $out/*.json) -o fitted.json"\n')
    return "".join(parts)
