"""The default platform of a command: the Jetson that it runs on; elsewhere a common module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Optional, Tuple

import click

from edgedla.errors import UsageError

if TYPE_CHECKING:
    from edgedla.targets.board import Board

#: Key in the click context's meta for the board, which does not change while a command runs.
_KEPT = "edgedla.board"


def own_board() -> Optional[Board]:
    """The Jetson that this command runs on, detected once; None elsewhere."""
    context = click.get_current_context(silent=True)
    if context is None:
        return _own_board()
    if _KEPT not in context.meta:
        context.meta[_KEPT] = _own_board()
    board: Optional[Board] = context.meta[_KEPT]
    return board


def _own_board() -> Optional[Board]:
    from edgedla.targets.jetson import on_jetson

    if not on_jetson():
        return None
    from edgedla.targets.board import this_board

    return this_board()


def _with_release(text: str, jetpack: Optional[str], trt: Optional[str]) -> Tuple[str, Optional[str], Optional[str]]:
    """Module, JetPack and TensorRT of "orin@6.2", as --compare writes it."""
    from edgedla.cli.arguments.platforms import parse_platform
    from edgedla.targets import COMMON_TARGET

    parts = parse_platform(text, COMMON_TARGET)
    if "precision" in parts or (jetpack or trt) and ("jetpack" in parts or "trt" in parts):
        raise UsageError(
            f"{text!r} names a precision, or what --jetpack or --trt names too",
            where="--target",
            allowed="MODULE@RELEASE without --jetpack and --trt; --precision for the precision",
        )
    return parts["target"], parts.get("jetpack", jetpack), parts.get("trt", trt)


def own_platform(
    target: Optional[str], jetpack: Optional[str], trt: Optional[str], *, tolerant: bool = False
) -> Dict[str, Optional[str]]:
    """target, jetpack and trt with this board's filled in where the module is not named, or is this very one.

    The release is that of the TensorRT that is installed here, which need not be JetPack's own.

    Args:
        tolerant: treat a Jetson of unknown module as no Jetson: for commands that need no module.

    Raises:
        UsageError: no target is named, and this is a Jetson of which edgedla cannot tell the module.
    """
    from edgedla.targets import COMMON_TARGET, module_for

    if target is not None and "@" in target:
        target, jetpack, trt = _with_release(target, jetpack, trt)
    if target is not None:
        module_for(target)
    named = {"target": target or COMMON_TARGET, "jetpack": jetpack, "trt": trt}
    board = own_board()
    if board is None:
        return named
    if board.target is None:
        if target is None and not tolerant:
            board.known_target()
        return named
    if target is not None and module_for(target).id != board.target:
        return named
    named["target"] = board.target
    if jetpack is None and trt is None:
        from edgedla.builder.tensorrt.bindings import installed_version

        named["jetpack"], named["trt"] = board.release(installed_version())
    return named


def own_power_mode(target: str) -> Optional[str]:
    """This board's power mode if the board is the target and edgedla knows the mode; else None, the default mode."""
    from edgedla.targets import module_for

    board, module = own_board(), module_for(target)
    if board is None or board.target != module.id:
        return None
    mode = board.mode_of(module)
    return mode.name if mode is not None and mode.name in module.power_modes else None


def own_label() -> str:
    """This board as --target of a sweep names platforms: "orin-nx-16gb@jp6.2"; elsewhere the common module."""
    named, board = own_platform(None, None, None), own_board()
    # One release only: TensorRT's stands where it is not JetPack's own.
    jetpack = f"@jp{board.jetpack}" if board is not None and board.jetpack else ""
    release = f"@trt{named['trt']}" if named["trt"] else jetpack
    return f"{named['target']}{release}"
