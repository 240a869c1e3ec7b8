"""The platform and the backend that `build` builds for."""

from __future__ import annotations

from typing import Any, Dict

from edgedla.cli.output import echo
from edgedla.errors import UsageError


def fill_platform(given: Dict[str, Any]) -> None:
    """Fills in module, release, precision and backend that were not given: the placement's, else this Jetson's.

    TensorRT cannot build for another module than the one that it runs on.
    """
    from edgedla.cli.arguments.this_board import own_board, own_platform
    from edgedla.targets import module_for, platform_for

    if given["placement"] is not None and given["dla_core"] is not None:
        raise UsageError(
            "a placement says which core each layer runs on",
            where="--dla-core",
            hint="leave --dla-core out, or place again with --devices GPU,DLA1",
        )
    if given["placement"] is not None:
        from edgedla.placement.result.document import read_placement
        from edgedla.placement.result.made_for import resolved_platform

        named_platform = (given["target"], given["jetpack"], given["trt"], given["precision"])
        given.update(resolved_platform(read_placement(given["placement"]), *named_platform)._asdict())
    built_here = given["backend"] in ("auto", "tensorrt")
    given.update(own_platform(given["target"], given["jetpack"], given["trt"]))
    platform = platform_for(given["target"], jetpack=given["jetpack"], trt=given["trt"])
    if not (platform.has_dla or given["plan_only"] or (platform.dla_unknown and given["allow_unknown"])):
        echo(f"edgedla: {platform.no_dla}; everything is built for the GPU", err=True)
    board = own_board()
    if built_here and board is not None and board.target is not None and platform.module.id != board.target:
        if given["backend"] == "tensorrt":
            raise UsageError(
                f"this is {board.target}: TensorRT builds for the module it runs on",
                where="--target",
                hint="build there, or write a script with --backend trtexec",
            )
        echo(f"edgedla: this is {board.target}: for {module_for(given['target']).id} the build is simulated", err=True)
        given["backend"] = "host"
