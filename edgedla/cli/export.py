"""`edgedla export`: writes an artifact or a placement in the form that another runtime reads."""

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
@option("--onnx", type=click.Path(path_type=Path), metavar="MODEL", help="Copy this model beside the files.")
@option("--core", type=click.IntRange(0, 1), help="DLA core.  [default: the placement's, or 0]")
@option("--decode", metavar="NAME", default="none", help="Decoder of the outputs, named as in `run`.  [default: none]")
@option("--labels", metavar="A,B,C", help="Class names, or a file with one per line.")
@option("--score", type=click.FloatRange(0, 1), default=0.25, help="Drop detections below this score.  [default: 0.25]")
@option("--parser", default="", metavar="FUNCTION", help="For DeepStream: the function that parses a detector's boxes.")
@option("--parser-library", default="", metavar="FILE", help="For DeepStream: the library on the board that holds this function.")
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
    """Write a build or a placement for another runtime: configuration, labels, caches, and a README.

    Lists, also in the README, what the runtime's configuration cannot express. Refuses what would run differently there.
    """
    from edgedla.export import ExportRequest
    from edgedla.export import export as hand_over
    from edgedla.runtime.decode.make_decoder import DecodeOptions
    from edgedla.runtime.pipeline.reading import read_labels

    preprocess_given = {name: value for name, value in preprocess.items() if value is not None}
    options = DecodeOptions(kind=decode, labels=read_labels(labels or ""), score=score)
    request = ExportRequest(onnx, core, preprocess_given, options, parser, parser_library)
    written = hand_over(runtime, source, folder, request)
    echo(f"written: {folder} ({', '.join(written.files)})")
    for path, why in written.missing.items():
        echo(f"missing: {path}: {why}")
    for gap in written.not_expressed:
        echo(f"not expressed: {gap}")
