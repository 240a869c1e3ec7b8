"""`edgedla check MODEL -o annotated.onnx`: the answer in the metadata of the model's nodes, where Netron shows it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from edgedla.cli.arguments.models import ModelSource
from edgedla.cli.output import echo, require_apart
from edgedla.errors import UsageError

if TYPE_CHECKING:
    from edgedla.cli.arguments.check_request import CheckRequest
    from edgedla.regions.report import CheckReport

ENDING = ".onnx"


def split_annotated(given: Dict[str, Any], sources: Sequence[ModelSource]) -> Tuple[Optional[str], Tuple[str, ...]]:
    """(the file to annotate into, or None; the other outputs). With --format no ending counts, so a model's is refused later.

    Raises:
        UsageError: two such files, several models, a comparison, a PyTorch factory, or the file is the model itself.
    """
    outputs: Tuple[str, ...] = given["output"]
    files = [] if given["output_format"] else [path for path in outputs if path.lower().endswith(ENDING)]
    if not files:
        return None, outputs
    if len(files) > 1 or len(sources) != 1 or given["compare"]:
        raise UsageError(
            "an annotated model is one model checked on one platform",
            where=", ".join(files),
            allowed="one MODEL, one -o FILE.onnx, no --compare",
        )
    require_apart("-o", files[0])
    source = sources[0].source
    if isinstance(source, str) and os.path.exists(files[0]) and os.path.samefile(source, files[0]):
        raise UsageError("this command reads this file and would overwrite it", where=files[0], hint="give -o another file")
    return files[0], tuple(path for path in outputs if path != files[0])


def write_annotated(file: str, source: ModelSource, report: CheckReport, request: CheckRequest) -> None:
    """Writes the model with the report in its metadata, and says where its weights stay."""
    from edgedla.importers.model_file.annotate import annotated
    from edgedla.importers.model_file.onnx_file import read
    from edgedla.io.files import write_atomic
    from edgedla.reports.check.annotation import of_model, of_nodes

    proto = read(source.source).model
    times = request.layer_times(report, source)
    write_atomic(file, annotated(source.source, of_model(report), of_nodes(report, proto.graph.node, times)))
    echo(f"edgedla: written {file}: {source.file} with the answer in the metadata of its nodes", err=True)
    if isinstance(source.source, str):
        folder = os.path.dirname(os.path.abspath(source.source))
        beside: List[Any] = [t for t in proto.graph.initializer if t.external_data]
        if beside and folder != os.path.dirname(os.path.abspath(file)):
            echo(f"edgedla: its weights stay in {folder}: only a viewer can open {file} without them", err=True)
