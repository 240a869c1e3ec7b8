"""`edgedla export`: what another runtime reads of an artifact or a placement."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.arguments.preprocess import preprocess_options
from edgedla.cli.output import echo


@click.command()
@click.argument("runtime", metavar="deepstream|triton|onnxruntime|savant")
@click.argument("source", metavar="ARTIFACT|PLACEMENT")
@option("-o", "--output", "folder", required=True, metavar="DIR", help="Write the files to DIR.")
@option("--onnx", type=click.Path(path_type=Path), metavar="MODEL", help="The model, to copy beside them.")
@option("--core", type=click.IntRange(0, 1), help="DLA core.  [default: the placement's, or 0]")
@option("--decode", metavar="NAME", default="none", help="What the outputs are, as `run` names it.  [default: none]")
@option("--labels", metavar="A,B,C", help="Class names, or a file with one per line.")
@option("--score", type=click.FloatRange(0, 1), default=0.25, help="Detections below it are dropped.  [default: 0.25]")
@option("--parser", default="", metavar="FUNCTION", help="DeepStream's function that parses a detector's boxes.")
@option("--parser-library", default="", metavar="FILE", help="The library on the board that has it.")
@preprocess_options(file=False)
def export(
    runtime: str,
    source: str,
    folder: str,
    onnx: Optional[Path],
    core: Optional[int],
    decode: str,
    labels: Optional[str],
    score: float,
    parser: str,
    parser_library: str,
    **preprocess: Any,
) -> None:
    """Write what another runtime reads of a build or a placement: configuration, labels, caches, and a README.

    What the runtime's configuration cannot express is listed, in the README too; what would run differently is refused.
    """
    from edgedla.export import ExportRequest
    from edgedla.export import export as hand_over
    from edgedla.runtime.decode.make_decoder import DecodeOptions
    from edgedla.runtime.pipeline.reading import read_labels

    asked = {name: value for name, value in preprocess.items() if value is not None}
    options = DecodeOptions(kind=decode, labels=read_labels(labels or ""), score=score)
    request = ExportRequest(onnx, core, asked, options, parser, parser_library)
    written = hand_over(runtime, source, folder, request)
    echo(f"written: {folder} ({', '.join(written.files)})")
    for path, why in written.missing.items():
        echo(f"missing: {path}: {why}")
    for gap in written.not_expressed:
        echo(f"not expressed: {gap}")
