"""Proof that a site computes the same: both of its forms run on its real inputs in ONNX Runtime, unoptimised.

Networks with random weights can be chaotic: a change in the last bit grows to whole percents at the output, and ONNX
Runtime's own optimisation levels differ as much. So each site is compared by itself, and the whole network against its
own noise: how far an optimised session is from an unoptimised one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import EdgedlaError
from edgedla.fixes.apply import Applied, Fragment
from edgedla.fixes.decoder import decoded
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import MOST_READ_ELEMENTS, data_of, has_data
from edgedla.quantization.session import open_session

#: Largest relative L2 difference of a site whose sums are taken in another order: float32, and float16 with its 11 bits.
ROUND = {"float32": 1e-5, "float16": 4e-3}
#: A whole network may differ by this many times its own noise, and by the bound of one site where it has less.
NOISE_FACTOR = 10.0
#: Weights above this are not loaded for a proof of the whole network: ONNX Runtime would hold them twice.
MOST_WEIGHT_BYTES = 1_500_000_000
#: Weights that ONNX Runtime's operators also take as inputs; those of quantised operators have to be constants.
FED_WEIGHTS = (np.dtype("float32"), np.dtype("float16"))
#: Larger values between two sites are drawn at random for the proof, not computed.
MOST_HELD_BYTES = 2_000_000_000


@dataclass(frozen=True)
class Proof:
    """What running one site showed.

    Attributes:
        status: "proved", "failed", or "unproved" with the reason in `detail`.
        equality: what was asked for: "bit", "round" or "approximate".
        rel_l2: ||after - before|| / ||before||. max_abs: largest difference. None where nothing ran.
        inputs: "data", "seeded" (random input of the network) or "random" (random input of the site).
    """

    status: str
    equality: str
    rel_l2: Optional[float] = None
    max_abs: Optional[float] = None
    inputs: str = "seeded"
    detail: str = ""

    def to_dict(self) -> Dict[str, Any]:
        return {
            "status": self.status,
            "equality": self.equality,
            "rel_l2": None if self.rel_l2 is None else float(f"{self.rel_l2:.3g}"),
            "max_abs": None if self.max_abs is None else float(f"{self.max_abs:.3g}"),
            "inputs": self.inputs,
            "detail": self.detail,
        }


def unproved(equality: str, why: str) -> Proof:
    return Proof("unproved", equality, detail=why)


def prove_sites(
    model: Any,
    applied: Sequence[Applied],
    equality_of: Mapping[str, str],
    feeds: Sequence[Mapping[str, np.ndarray]],
    data_given: bool,
    approximate: float = 0.0,
    seeded: bool = False,
) -> Tuple[Proof, ...]:
    """A proof for each site, in order; over several feeds the worst counts.

    Args:
        model: onnx_ir.Model, folded and not yet rewritten, with its weights.
        applied: sites with their fragments.
        equality_of: class by rewrite id.
        feeds: inputs of the network; empty where it is too large to run: then each site gets random input.
        data_given: the feeds are a user's data.
        approximate: bound of approximate sites, relative L2.
        seeded: the weights are random numbers, which the proofs say.
    """
    worst: List[Optional[Proof]] = [None] * len(applied)
    for feed in feeds or ({},):
        values = _values(model, applied, feed)
        for i, site in enumerate(applied):
            proof = _prove(site, values, equality_of[site.rewrite], approximate, bool(feeds), data_given)
            if seeded and proof.status == "proved":
                proof = replace(proof, detail="on seeded weights")
            worst[i] = proof if worst[i] is None else _worse(worst[i], proof)
    return tuple(p for p in worst if p is not None)


def _values(model: Any, applied: Sequence[Applied], feed: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Run-time values that sites read, from one run of the network before any rewrite."""
    if not feed:
        return {}
    wanted = {name for site in applied if site.fragment for name in site.fragment.inputs} - set(feed)
    made = {v.name: v for n in model.graph for v in n.outputs}
    held, names = 0, []
    for name in sorted(wanted & set(made)):
        shape = made[name].shape
        size = int(np.prod([d for d in shape if isinstance(d, int)])) * 4 if shape is not None else 0
        if held + size <= MOST_HELD_BYTES:
            held += size
            names.append(name)
    values: Dict[str, np.ndarray] = dict(feed)
    if names:
        proto = onnx_ir().to_proto(model)
        known = {o.name for o in proto.graph.output}
        for name in names:
            if name not in known:
                proto.graph.output.add().name = name
        session = open_session(proto.SerializeToString(), optimize=False)
        values.update(zip(names, session.run(names, dict(feed))))
    return values


def _prove(
    site: Applied, values: Dict[str, np.ndarray], equality: str, approximate: float, real: bool, data_given: bool
) -> Proof:
    fragment = site.fragment
    if fragment is None:
        return unproved(equality, "nothing was recorded of it")
    missing = [name for name, tensor in fragment.constants.items() if not has_data(tensor)]
    if missing:
        return unproved(equality, f"the weights of {missing[0]} are not in the file")
    feed: Dict[str, np.ndarray] = {}
    for name, (dtype, shape) in fragment.inputs.items():
        if name not in values:
            if dtype is None or shape is None:
                return unproved(equality, f"the shape of {name} is not known")
            values[name] = _random(name, dtype.numpy(), shape)
            real = False
        feed[name] = values[name]
    if site.changed and site.changed[0].decoder:
        return _prove_decoder(site, fragment, feed, "data" if data_given and real else "seeded" if real else "random")
    later = [o for n in fragment.after for o in n.output if o]
    try:
        names = list(dict.fromkeys([fragment.output, fragment.new_output, *later]))
        results = _run_fragment(fragment, feed, names)
    except EdgedlaError as e:
        return unproved(equality, e.what)
    except Exception as e:
        # onnxruntime raises its own classes, which are only reachable through its C extension.
        return unproved(equality, f"ONNX Runtime cannot run it: {str(e)[:200]}")
    for name in later:
        # Later rewrites may start from a value that this one made.
        if name in results:
            values.setdefault(name, results[name])
    before, after = results.get(fragment.output, feed.get(fragment.output)), results.get(fragment.new_output)
    if after is None:
        after = feed[fragment.new_output]
    return compare(
        before, after, equality, approximate, "data" if data_given and real else "seeded" if real else "random"
    )


def _prove_decoder(site: Applied, fragment: Fragment, feed: Mapping[str, np.ndarray], inputs: str) -> Proof:
    """The nodes that were cut off against the model that was made of them, on the values that both read."""
    if site.decoder is None:
        return unproved("bit", "constants of the decoder are not in the file")
    names = [output.name for output in site.changed]
    try:
        before, after = _run_fragment(fragment, feed, names), decoded(site.decoder, feed)
    except EdgedlaError as e:
        return unproved("bit", e.what)
    except Exception as e:
        # onnxruntime raises its own classes, which are only reachable through its C extension.
        return unproved("bit", f"ONNX Runtime cannot run it: {str(e)[:200]}")
    proofs = [compare(before[name], after[name], "bit", 0.0, inputs) for name in names]
    return max(proofs, key=lambda p: (p.status == "failed", p.rel_l2 or 0.0))


def _random(name: str, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    import zlib

    rng = np.random.default_rng([7, zlib.crc32(name.encode())])
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def _run_fragment(fragment: Fragment, feed: Mapping[str, np.ndarray], names: Sequence[str]) -> Dict[str, np.ndarray]:
    """Both forms side by side in one model, which takes weights as inputs.

    An initializer would be there up to five times: in the model, serialised, parsed, laid out and packed by ONNX Runtime. An
    input is read where NumPy holds it.
    """
    import onnx

    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in fragment.opsets]
    proto = onnx.ModelProto(ir_version=10, opset_import=opsets)
    graph = proto.graph
    graph.name = "site"
    graph.node.extend([*fragment.before, *fragment.after])
    inputs = dict(feed)
    for name, tensor in fragment.constants.items():
        elements = np.asarray(data_of(tensor))
        if elements.size > MOST_READ_ELEMENTS and elements.dtype in FED_WEIGHTS:
            inputs[name] = elements
        else:
            graph.initializer.append(onnx.numpy_helper.from_array(elements, name))
    for name, array in inputs.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(name, kind, array.shape))
    made = {o for n in graph.node for o in n.output}
    asked = [name for name in names if name in made]
    for name in asked:
        graph.output.add().name = name
    if not asked:
        return {}
    session = open_session(proto.SerializeToString(), optimize=False)
    return dict(zip(asked, session.run(asked, inputs)))


def compare(before: Any, after: Any, equality: str, approximate: float, inputs: str) -> Proof:
    """The verdict on two results; a reshape between them is allowed, for outputs may stay 4-D."""
    a, b = np.asarray(before).reshape(-1), np.asarray(after).reshape(-1)
    if a.size != b.size:
        return Proof("failed", equality, inputs=inputs, detail=f"{a.size} elements became {b.size}")
    same = bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    rel_l2, max_abs = (0.0, 0.0) if same else distance(a, b)
    bound = {"bit": 0.0, "round": ROUND.get(str(a.dtype), 0.0), "approximate": approximate}[equality]
    holds = same or (equality != "bit" and rel_l2 <= bound)
    detail = "" if holds else f"differs by {rel_l2:.2g} (relative L2), allowed is {bound:.2g}"
    return Proof("proved" if holds else "failed", equality, rel_l2, max_abs, inputs, detail)


def distance(before: np.ndarray, after: np.ndarray) -> Tuple[float, float]:
    """(||after - before|| / ||before||, largest difference), in double precision; infinite where one is not finite."""
    a, b = before.astype(np.float64).reshape(-1), after.astype(np.float64).reshape(-1)
    # Overflow to the same infinity, or NaN in both, is no difference.
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    a, b = a[~equal], b[~equal]
    gap = np.abs(b - a)
    if not np.all(np.isfinite(gap)):
        return float("inf"), float("inf")
    scale = float(np.linalg.norm(before.astype(np.float64).reshape(-1)[np.isfinite(before.reshape(-1))]))
    norm = float(np.linalg.norm(gap))
    return (norm / scale if scale > 0 else (0.0 if norm == 0 else float("inf"))), float(gap.max(initial=0.0))


def _worse(first: Optional[Proof], second: Proof) -> Proof:
    assert first is not None
    rank = {"proved": 0, "unproved": 1, "failed": 2}
    worst = max((first, second), key=lambda p: (rank[p.status], p.rel_l2 or 0.0))
    return replace(worst)


@dataclass(frozen=True)
class NetworkProof:
    """The whole network before and after.

    Attributes:
        rel_l2: largest over outputs and feeds. noise: the same between two optimisation levels of the unchanged network.
        same_top1: share of feeds whose largest element is the same, over outputs with at least two elements.
        within: rel_l2 is at most `bound`; None where it did not run.
    """

    within: Optional[bool]
    rel_l2: Optional[float] = None
    noise: Optional[float] = None
    bound: Optional[float] = None
    same_top1: Optional[float] = None
    samples: int = 0
    detail: str = ""

    def to_dict(self) -> Dict[str, Any]:
        def short(number: Optional[float]) -> Optional[float]:
            return None if number is None else float(f"{number:.3g}")

        return {
            "within": self.within,
            "rel_l2": short(self.rel_l2),
            "noise": short(self.noise),
            "bound": short(self.bound),
            "same_top1": short(self.same_top1),
            "samples": self.samples,
            "detail": self.detail,
        }


def prove_network(
    before: Any,
    after: Any,
    feeds: Sequence[Mapping[str, np.ndarray]],
    approximate: float = 0.0,
    decoder: Optional[Any] = None,
) -> NetworkProof:
    """Runs both networks: onnx_ir.Models with weights and the same outputs by name.

    Args:
        decoder: onnx.ModelProto that makes outputs of `before` from those of `after`, where it lacks them.
    """
    ir = onnx_ir()
    old, new = ir.to_proto(before).SerializeToString(), ir.to_proto(after).SerializeToString()
    names_old, names_new = [v.name for v in before.graph.outputs], [v.name for v in after.graph.outputs]
    plain, fused, fixed = open_session(old, optimize=False), open_session(old), open_session(new, optimize=False)
    worst = noise = 0.0
    equal = counted = 0
    for feed in feeds:
        reference = plain.run(names_old, dict(feed))
        outputs = dict(zip(names_new, fixed.run(names_new, dict(feed))))
        if decoder is not None:
            outputs.update(decoded(decoder, outputs))
        for name, a, b in zip(names_old, reference, fused.run(names_old, dict(feed))):
            a, b, c = np.asarray(a), np.asarray(b), np.asarray(outputs[name])
            noise = max(noise, distance(a, b)[0])
            worst = max(worst, distance(a, c.reshape(a.shape))[0])
            if a.size > 1:
                counted += 1
                equal += int(np.argmax(a) == np.argmax(c))
    dtype = (
        "float16" if any(v.dtype is not None and v.dtype.name == "FLOAT16" for v in before.graph.outputs) else "float32"
    )
    bound = max(approximate, ROUND[dtype], NOISE_FACTOR * noise)
    detail = "" if worst <= bound else f"differs by {worst:.2g}, its own noise is {noise:.2g}"
    return NetworkProof(worst <= bound, worst, noise, bound, equal / counted if counted else None, len(feeds), detail)
