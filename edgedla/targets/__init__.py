"""Modules, releases and platforms: `platform_for` gives the platform of a verdict."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Optional

from edgedla.errors import UsageError
from edgedla.targets.modules import COMMON_TARGET, module_for, module_ids, modules
from edgedla.targets.platform import Module, Platform, Release
from edgedla.targets.releases import dla_answer, release_for, releases
from edgedla.targets.versions import VersionRange, parse_version


def platform_for(target: Optional[str] = None, jetpack: Optional[str] = None, trt: Optional[str] = None) -> Platform:
    """The platform that the user names. A pair without DLA is an answer, not an error: see `Platform.no_dla`.

    Args:
        target: a module's name ("agx-orin-64gb") or an alias ("orin"). None: the Jetson that this runs on; elsewhere COMMON_TARGET.
        jetpack: for example "6.2".
        trt: TensorRT, two to four numbers: "10.3", "8.5.2", "10.3.0.30". A short one means the newest release that begins with it.
            Without jetpack and trt it is the module's default release (rules/targets/).

    Raises:
        UsageError: unknown target, JetPack or TensorRT, a TensorRT that the JetPack does not carry, or an unknown Jetson that asks.
    """
    if target is None:
        from edgedla.targets.board import this_board

        board = this_board()
        target = COMMON_TARGET if board is None else board.known_target()
        if board is not None and jetpack is None and trt is None:
            jetpack = board.jetpack
    for name, value in (("target", target), ("jetpack", jetpack), ("trt", trt)):
        if not isinstance(value, str) and value is not None:
            # A number cannot tell 10.10 from 10.1.
            what = f"{value!r} of type {type(value).__name__}"
            raise UsageError(what, where=name, allowed='text: "orin", "6.2", "10.3"')
    return _platform(target, jetpack, trt)


def target_options(platform: Platform) -> str:
    """The command-line options for this module and release; without the release if it is the module's default."""
    module, release = platform.module.id, platform.release
    text = f"--target {module}"
    if release == platform_for(module).release:
        return text
    if release.jetpack is None:
        return f"{text} --trt {release.trt_text}"
    # A JetPack may carry several releases of TensorRT.
    same = release == platform_for(module, release.jetpack).release
    return f"{text} --jetpack {release.jetpack}" + ("" if same else f" --trt {release.trt_text}")


@lru_cache(maxsize=256)
def _platform(target: str, jetpack: Optional[str], trt: Optional[str]) -> Platform:
    module = module_for(target)
    release = release_for(module, jetpack, trt)
    answer, reason = dla_answer(module, release)
    if answer == "unknown":
        counted = _counted(module, release)
        if counted:
            said = (release.note, f"TensorRT {release.trt_text} counts {counted} DLA cores here; no source names them")
            answer, release = "yes", replace(release, note="; ".join(filter(None, said)))
        elif counted == 0:
            answer, reason = "no", f"TensorRT {release.trt_text} on this board counts no DLA cores"
    return Platform(module, release, None if answer == "yes" else reason, answer == "unknown")


def _counted(module: Module, release: Release) -> Optional[int]:
    """The DLA cores that the installed TensorRT counts; None where this is not the board, or another release."""
    from edgedla.targets.board import board_target
    from edgedla.targets.jetson import on_jetson

    if not on_jetson() or board_target() != module.id:
        return None
    from edgedla.targets.installed import counted_cores

    version, cores = counted_cores() or ((), None)
    return cores if version[:3] == release.trt[:3] else None


__all__ = [
    "COMMON_TARGET",
    "Platform",
    "VersionRange",
    "module_for",
    "module_ids",
    "modules",
    "parse_version",
    "platform_for",
    "releases",
]
