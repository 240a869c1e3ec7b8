"""The error of a simulated chain against ONNX Runtime in FP32: per stage on its real inputs, and from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.chain.host_chain import HostChain
from edgedla.builder.chain.plan import ChainPlan
from edgedla.builder.host.accuracy import CHECK_SAMPLES, CHECK_SEED, accuracy_of, loaded_samples, output_errors, outputs_of
from edgedla.builder.onnx_source import OnnxSource
from edgedla.errors import BuildError
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.quantization.samples import Samples, synthetic_samples
from edgedla.quantization.session import model_input_specs, open_session

if TYPE_CHECKING:
    from onnx import ModelProto


class Reference:
    """The whole model in FP32, run on the samples for the error measurement; gives the inputs of each stage."""

    def __init__(
        self,
        source: OnnxSource,
        chain: ChainPlan,
        data: Optional[Path],
        preprocess: Optional[PreprocessSettings] = None,
        checked: Optional[Samples] = None,
    ) -> None:
        """Raises ModelError, RunError, DataError, UsageError, EnvironmentMissing."""
        self.chain = chain
        shapes = {io.name: io.shape_nchw for io in chain.io if io.is_input}
        static = source.static(shapes)
        self.session = open_session(static.SerializeToString(), error=BuildError)
        specs = model_input_specs(static)
        self.own_types = {spec.dtype for spec in specs if np.issubdtype(spec.dtype, np.floating)}
        given = checked or (loaded_samples(data, specs, preprocess) if data is not None else None)
        self.checked = given or synthetic_samples(specs, CHECK_SAMPLES, CHECK_SEED)
        self.between = _between(static, chain.between, self.checked)

    def samples(self, k: int) -> Optional[Samples]:
        """The inputs of stage k in FP32; None if the whole model cannot output one of them."""
        names = [io.name for io in self.chain.stages[k].plan.inputs]
        if any(name not in values for values in self.between for name in names):
            return None
        feeds = tuple({name: values[name] for name in names} for values in self.between)
        detail = self.checked.detail if k == 0 else f"what FP32 makes of {self.checked.detail} before this stage"
        return Samples(feeds, self.checked.synthetic, detail)

    def accuracy(self, stages: Sequence[Artifact]) -> Dict[str, Any]:
        """The error from end to end, which includes the rounding of tensors between the stages."""
        errors = output_errors(outputs_of(self.session, self.checked.feeds), HostChain(stages), self.checked.feeds)
        counts: Dict[str, int] = {}
        for stage in stages:
            for key, count in (stage.accuracy or {}).get("nodes", {}).items():
                counts[key] = counts.get(key, 0) + count
        return accuracy_of(errors, self.checked, self.chain.stages[0].plan, self.chain.calibration, self.own_types, counts)


def _between(model: ModelProto, names: Sequence[str], checked: Samples) -> List[Dict[str, np.ndarray]]:
    """Per sample: the network's inputs and the tensors between stages."""
    import onnx

    written = {t for node in model.graph.node for t in node.output}
    computed = [n for n in names if n in written]
    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    outputs = {o.name for o in probed.graph.output}
    for name in computed:
        if name not in outputs:
            probed.graph.output.add().name = name
    session = open_session(probed.SerializeToString(), error=BuildError)
    return [{**feed, **dict(zip(computed, session.run(computed, feed) if computed else []))} for feed in checked.feeds]
