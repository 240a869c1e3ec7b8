"""A network's metric on samples, with its confidence interval, and its difference to another network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.accuracy.metrics import Metric, require_labels
from edgedla.accuracy.scores.finite import FirstFault, first_not_finite, require_finite, require_score
from edgedla.accuracy.scores.judgement import Judgement, Witness, judge
from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import DataError, ModelError, UsageError
from edgedla.formats.pack import NUMPY_TYPE
from edgedla.importers.model_file.embedded_preprocess import embedded_preprocess
from edgedla.io.documents import header
from edgedla.preprocess.settings import PreprocessSettings, settings_of, with_embedded
from edgedla.quantization.samples import Feed, InputSpec, Samples
from edgedla.text.printable import digits

Run = Callable[[Feed], Mapping[str, np.ndarray]]
#: Element type of an artifact's input -> that of its samples; INT8 and HALF values are computed here.
FED_TYPES: Mapping[str, type] = {**NUMPY_TYPE, "HALF": np.float32, "INT8": np.float32}


@dataclass(frozen=True)
class Network:
    """A network that computes outputs from feeds.

    Attributes:
        basis: "fp32", "simulated" or "measured" (on a device).
        preprocess: how pictures become its input, if its artifact records that.
        types: the types that an ONNX file computes in, if other than FLOAT alone.
        first_fault: names the layer where NaN or infinity begins.
    """

    name: str
    basis: str
    inputs: Tuple[InputSpec, ...]
    outputs: Tuple[str, ...]
    run: Run
    preprocess: Optional[PreprocessSettings] = None
    types: Tuple[str, ...] = ()
    first_fault: Optional[FirstFault] = None


@dataclass(frozen=True)
class Score:
    """A metric over samples. `low`, `high`: its 95 % confidence interval. `basis`, `types`: as in `Network`."""

    network: str
    basis: str
    metric: str
    value: float
    low: float
    high: float
    samples: int
    values: Tuple[Any, ...] = ()
    types: Tuple[str, ...] = ()

    @property
    def computed_in(self) -> str:
        """The types of an ONNX file's arithmetic, in words."""
        return " and ".join(self.types) or "FP32"

    def to_dict(self) -> Dict[str, Any]:
        return {
            "network": self.network,
            "basis": self.basis,
            "metric": self.metric,
            "value": digits(self.value),
            "low": digits(self.low),
            "high": digits(self.high),
            "samples": self.samples,
            **({"types": list(self.types)} if self.types else {}),
        }


@dataclass(frozen=True)
class Evaluation:
    """`score`; with a second network also that network's score, and the difference with its interval.

    Attributes:
        judgement: whether the samples show that the metric falls by at most `max_drop`; None if none was given.
        blind: why the samples can notice little; () if nothing is known against them.
    """

    score: Score
    against: Optional[Score] = None
    difference: Optional[Tuple[float, float, float]] = None
    detail: str = ""
    judgement: Optional[Judgement] = None
    blind: Tuple[str, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        names = ("value", "low", "high")
        return {
            **header("edgedla.evaluation"),
            "samples": self.detail,
            "score": self.score.to_dict(),
            "against": self.against.to_dict() if self.against else None,
            "difference": dict(zip(names, map(digits, self.difference))) if self.difference else None,
            "judgement": self.judgement.to_dict() if self.judgement else None,
            "notices_little": list(self.blind),
        }


def onnx_network(model: Any, name: str, shapes: Optional[Mapping[str, Sequence[int]]] = None) -> Network:
    """An onnx.ModelProto run by ONNX Runtime, in FP32 or in the model's own types.

    Raises:
        ModelError: ONNX Runtime refuses the model; the error gives `name`. EnvironmentMissing: no onnxruntime.
    """
    from edgedla.builder.onnx_input import by_port, open_batches, with_static_inputs
    from edgedla.importers.model_file.float32_types import own_types
    from edgedla.importers.model_file.plugins import plugin_names
    from edgedla.quantization.session import input_specs, open_session

    plugins = plugin_names(model)
    if plugins:
        raise ModelError(
            f"ONNX Runtime lacks {', '.join(plugins)}, so nothing here computes the model's outputs",
            where=name,
            hint="evaluate the artifact on the board that builds it, or a model that ends in front of the plugin; `edgedla help plugins`",
        )
    sizes = {**open_batches(model), **by_port(model, shapes or {})}
    static = with_static_inputs(model, {k: tuple(v) for k, v in sizes.items()})
    try:
        session = open_session(static.SerializeToString())
    except ModelError as e:
        raise ModelError(e.what, where=name, allowed=e.allowed, hint=e.hint) from e
    names = [o.name for o in session.get_outputs()]
    specs = input_specs(session, {k: list(v) for k, v in sizes.items()})
    made = with_embedded(None, embedded_preprocess(model, name))
    own = own_types(static)

    def run(feed: Feed) -> Mapping[str, np.ndarray]:
        return dict(zip(names, session.run(names, feed)))

    types = own.names if own else ()
    return Network(name, "fp32", tuple(specs), tuple(names), run, made, types, first_not_finite(static))


def open_network(
    path: Union[str, Path],
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    on_device: Optional[Callable[[Artifact, str], Network]] = None,
) -> Network:
    """Opens an artifact of the host backend (simulated), an artifact of a device (measured), or an ONNX file (FP32).

    Stages of a chain run one after the other. Outputs that `fix` changed are restored.

    Args:
        on_device: opens an artifact that TensorRT built; called with the artifact and its name.

    Raises:
        UsageError: the artifact needs a Jetson, and `on_device` is None. DocumentError, ModelError, RunError.
    """
    where = Path(path)
    if where.is_dir():
        from edgedla.builder import load_artifact
        from edgedla.builder.chain.host_chain import open_host

        artifact = load_artifact(where)
        if artifact.backend != "host":
            if on_device is not None:
                return on_device(artifact, where.name)
            raise UsageError(
                f"the artifact was built by {artifact.backend}: its engine runs on {artifact.platform['target']}",
                where=str(where),
                hint="build it here with --backend host, or evaluate on the Jetson",
            )
        session = open_host(artifact)
        specs = tuple(InputSpec(b.name, tuple(b.shape_nchw), session.input_type(b.name)) for b in artifact.inputs)
        return artifact_network(artifact, where.name, "simulated", specs, session.run_arrays)
    from edgedla.builder.onnx_input import read_model

    return onnx_network(read_model(where), where.name, shapes)


def artifact_network(artifact: Artifact, name: str, basis: str, inputs: Tuple[InputSpec, ...], run: Run) -> Network:
    """A built network whose outputs are those of its model before `fix` changed them.

    Args:
        run: feed -> arrays by the names of the artifact's own outputs.
    """
    from edgedla.builder.artifact.original_outputs import original_names, original_outputs

    restore = original_outputs(artifact)
    names = original_names(artifact)
    made = None if artifact.preprocess is None else settings_of(artifact.preprocess, str(artifact.folder))

    def restored(feed: Feed) -> Mapping[str, np.ndarray]:
        outputs = run(feed)
        outputs = outputs if restore is None else restore(outputs)
        return {name: outputs[name] for name in names}

    first = first_fault_of(artifact)
    return Network(name, basis, inputs, tuple(names), restored, made, first_fault=first)


def first_fault_of(artifact: Artifact) -> Optional[FirstFault]:
    """Names the layer of a simulated artifact where NaN or infinity begins; None for a chain or a device."""
    if artifact.backend != "host" or artifact.kind == "chain":
        return None

    def model() -> Any:
        import onnx

        return onnx.load_model_from_string(artifact.file("host_model").read_bytes())

    return first_not_finite(model)


def evaluate(
    network: Network,
    samples: Samples,
    metric: Metric,
    against: Optional[Network] = None,
    progress: Optional[Callable[[int, int], None]] = None,
    max_drop: Optional[float] = None,
) -> Evaluation:
    """The metric of `network` on the samples; with `against` also that network's metric, and the difference.

    Args:
        max_drop: how far the metric may fall below `against`; the evaluation's `judgement` says whether the samples show it.

    Raises:
        DataError: the metric needs labels, but there are none, they do not fit the outputs, or the class of a folder is
            unknown; an FP32 output or a score is NaN or infinite.
        RunError: a simulated or measured output or score is NaN or infinite.
        UsageError: the metric compares with a reference, but `against` is None.
    """
    require_labels(metric, samples)
    if metric.needs_reference and against is None:
        raise UsageError(f"the metric {metric.name} compares two networks", hint="name the other one with --against")
    if against is not None:
        _require_same_inputs(network, against)
    values: List[Any] = []
    others: List[Any] = []
    witness = Witness()

    def scored(which: Network, i: int, feed: Feed, reference: Optional[Mapping[str, np.ndarray]]) -> Any:
        outputs = which.run(feed)
        require_finite(outputs, which.name, which.basis, i, feed, which.first_fault)
        if i == 0:
            require_labels(metric, samples, outputs)
        value = metric.of_sample(outputs, label, outputs if reference is None else reference)
        require_score(value, metric.name, which.name, which.basis, i)
        return outputs, value

    for i, feed in enumerate(samples.feeds):
        label = samples.labels[i] if samples.labels is not None else None
        reference = None
        if against is not None:
            reference, value = scored(against, i, _fed(feed, against), None)
            others.append(value)
        outputs, value = scored(network, i, feed, reference)
        values.append(value)
        witness.see(feed, outputs if reference is None else reference, label)
        if progress is not None:
            progress(i + 1, len(samples.feeds))
    if not values:
        raise DataError("there is no sample", where=samples.detail, allowed="one or more")
    score, blind = _score(network, metric, values), witness.blind(metric)
    if against is None:
        return Evaluation(score, detail=samples.detail, blind=blind)
    other = _score(against, metric, others)
    low, high = metric.difference_interval(values, others)
    difference = (score.value - other.value, low, high)
    answer = None if max_drop is None else judge(metric, others, values, max_drop, blind)
    return Evaluation(score, other, difference, samples.detail, answer, blind)


def _require_same_inputs(network: Network, against: Network) -> None:
    """Raises:
    UsageError: one of them cannot take the other's samples.
    """
    ours, theirs = ({spec.name: tuple(spec.shape) for spec in each.inputs} for each in (network, against))
    if ours != theirs:
        texts = [
            f"{each.name} takes " + ", ".join(f"{name} {'x'.join(map(str, dims))}" for name, dims in inputs.items())
            for each, inputs in ((network, ours), (against, theirs))
        ]
        raise UsageError(
            f"the samples of one do not fit the other: {'; '.join(texts)}",
            where="against",
            hint="compare networks of the same inputs; --shapes fixes the sizes that a model leaves open",
        )


def _fed(feed: Feed, network: Network) -> Feed:
    """The feed with floats cast to the types that this network takes."""
    kinds = {spec.name: spec.dtype for spec in network.inputs if np.dtype(spec.dtype).kind == "f"}
    return {n: x.astype(kinds[n], copy=False) if n in kinds and x.dtype.kind == "f" else x for n, x in feed.items()}


def _score(network: Network, metric: Metric, values: Sequence[Any]) -> Score:
    figure = metric.figure(values)
    # All pixels may be ignored, or no frame hold an object.
    require_score(figure, metric.name, network.name, network.basis)
    low, high = metric.interval(values)
    name, basis, types = network.name, network.basis, network.types
    return Score(name, basis, metric.name, figure, low, high, len(values), tuple(values), types)
