"""How far a simulated chain is from ONNX Runtime in FP32: each stage on what it really reads, and all of it together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.chain.host_chain import HostChain
from edgedla.builder.chain.plan import ChainPlan
from edgedla.builder.host.accuracy import (
    CHECK_SAMPLES,
    CHECK_SEED,
    accuracy_of,
    loaded_samples,
    output_errors,
    outputs_of,
)
from edgedla.builder.onnx_source import OnnxSource
from edgedla.errors import BuildError
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.quantization.samples import Samples, synthetic_samples
from edgedla.quantization.session import model_input_specs, open_session

if TYPE_CHECKING:
    from onnx import ModelProto


class Reference:
    """The whole model in FP32, and what it gives to each stage on the samples that the error is measured on."""

    def __init__(
        self,
        source: OnnxSource,
        chain: ChainPlan,
        data: Optional[Path],
        preprocess: Optional[PreprocessSettings] = None,
    ) -> None:
        """Raises ModelError, RunError, DataError, UsageError, EnvironmentMissing."""
        self.chain = chain
        shapes = {io.name: io.shape_nchw for io in chain.io if io.is_input}
        static = source.static(shapes)
        self.session = open_session(static.SerializeToString(), error=BuildError)
        specs = model_input_specs(static)
        self.own_types = {spec.dtype for spec in specs if np.issubdtype(spec.dtype, np.floating)}
        given = loaded_samples(data, specs, preprocess) if data is not None else None
        self.checked = given or synthetic_samples(specs, CHECK_SAMPLES, CHECK_SEED)
        self.between = _between(static, chain.between, self.checked)

    def samples(self, k: int) -> Optional[Samples]:
        """What stage k reads in FP32; None where a tensor of it is not to be had from the whole model."""
        names = [io.name for io in self.chain.stages[k].plan.inputs]
        if any(name not in values for values in self.between for name in names):
            return None
        feeds = tuple({name: values[name] for name in names} for values in self.between)
        detail = self.checked.detail if k == 0 else f"what FP32 makes of {self.checked.detail} before this stage"
        return Samples(feeds, self.checked.synthetic, detail)

    def accuracy(self, stages: Sequence[Artifact]) -> Dict[str, Any]:
        """From end to end: the stages' own errors add up, and what passes between them is rounded once more."""
        errors = output_errors(outputs_of(self.session, self.checked.feeds), HostChain(stages), self.checked.feeds)
        counts: Dict[str, int] = {}
        for stage in stages:
            for key, count in (stage.accuracy or {}).get("nodes", {}).items():
                counts[key] = counts.get(key, 0) + count
        return accuracy_of(
            errors, self.checked, self.chain.stages[0].plan, self.chain.calibration, self.own_types, counts
        )


def _between(model: ModelProto, names: Sequence[str], checked: Samples) -> List[Dict[str, np.ndarray]]:
    """By sample the network's inputs and what passes between stages."""
    import onnx

    written = {t for node in model.graph.node for t in node.output}
    wanted = [n for n in names if n in written]
    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    outputs = {o.name for o in probed.graph.output}
    for name in wanted:
        if name not in outputs:
            probed.graph.output.add().name = name
    session = open_session(probed.SerializeToString(), error=BuildError)
    return [{**feed, **dict(zip(wanted, session.run(wanted, feed) if wanted else []))} for feed in checked.feeds]
