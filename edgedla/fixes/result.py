"""FixResult: the rewritten model, what was done and what was not, with proofs and predicted figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from edgedla.arguments import typed
from edgedla.fixes.choose import Bundle
from edgedla.fixes.judge import Figures
from edgedla.fixes.proofs.comparison import Proof
from edgedla.fixes.proofs.whole_network import NetworkProof
from edgedla.importers.model_file.changed_outputs import ChangedOutput, decoder_path
from edgedla.io.documents import header
from edgedla.io.publishing import publication
from edgedla.text.shown import Shown


@dataclass(frozen=True)
class FixedSite:
    """One place that was rewritten.

    Attributes:
        rewrite: id. output: the value that has a new producer; its name stays.
        before, after: names of nodes. note: what to know about it.
    """

    rewrite: str
    output: str
    before: Tuple[str, ...]
    after: Tuple[str, ...]
    proof: Proof
    note: str = ""

    def to_dict(self) -> Dict[str, Any]:
        return {**vars(self), "before": list(self.before), "after": list(self.after), "proof": self.proof.to_dict()}


@dataclass(frozen=True)
class RefusedSite:
    """One place that stays as it is.

    Attributes:
        reason: the precondition that does not hold, or that it does not pay.
        cause: "precondition", "cost" or "proof".
    """

    rewrite: str
    node: str
    reason: str
    cause: str

    def to_dict(self) -> Dict[str, Any]:
        return {"rewrite": self.rewrite, "node": self.node, "reason": self.reason, "cause": self.cause}


@dataclass(frozen=True)
class PlacedLayer:
    """One TensorRT layer and where it is predicted to run.

    Attributes:
        node: the ONNX node that it comes from, or "".
        placed: "dla", "gpu" or "folded". loadable: number of its DLA candidate, or None.
        reason: why it does not run on the DLA, where it does not.
    """

    name: str
    type: str
    node: str
    placed: str
    loadable: Optional[int]
    reason: str

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, repr=False)
class FixResult(Shown):
    """The result of `fix`.

    Attributes:
        model: onnx_ir.Model, rewritten. name: of the model. source: its path, or "".
        platform: module and release as `check` prints them.
        folded: nodes that became constants.
        applied, refused: places that were rewritten, and places that were not, with the reason.
        before, after: predicted figures of the original and the rewritten model.
        bundles: sites that were judged together, with the objective's value with and without them.
        network: proof of the whole network.
        interface: changes of inputs and outputs, one sentence each.
        outputs: the original outputs that changed. decoder: if a decoder was cut off, serialised ONNX model from the new
            outputs to the original ones.
        types: says that the model's own types were converted, and how far that is proven or what differs; "" if they were not.
        notes: what else the user should know.
        trials: number of forms of the network that were judged.
        layers_before, layers_after: layers of both networks in running order; empty if the parser refuses the network.
    """

    model: Any
    name: str
    source: str
    platform: Mapping[str, Any]
    precision: str
    purpose: str
    objective: str
    folded: int
    applied: Tuple[FixedSite, ...]
    refused: Tuple[RefusedSite, ...]
    before: Figures
    after: Figures
    bundles: Tuple[Bundle, ...]
    network: NetworkProof
    interface: Tuple[str, ...] = ()
    outputs: Tuple[ChangedOutput, ...] = ()
    decoder: Optional[bytes] = None
    notes: Tuple[str, ...] = ()
    trials: int = 0
    layers_before: Tuple[PlacedLayer, ...] = ()
    layers_after: Tuple[PlacedLayer, ...] = ()
    types: str = ""

    @property
    def counts(self) -> Dict[str, int]:
        """Applied sites by rewrite, in the order of the first."""
        by_rewrite: Dict[str, int] = {}
        for site in self.applied:
            by_rewrite[site.rewrite] = by_rewrite.get(site.rewrite, 0) + 1
        return by_rewrite

    @property
    def failed(self) -> Tuple[FixedSite, ...]:
        """Sites whose proof failed; `fix` leaves none."""
        return tuple(s for s in self.applied if s.proof.status == "failed")

    def proofs(self) -> Dict[str, int]:
        """Sites by status of their proof."""
        by_status: Dict[str, int] = {}
        for site in self.applied:
            by_status[site.proof.status] = by_status.get(site.proof.status, 0) + 1
        return by_status

    def to_proto(self) -> Any:
        """The model as onnx.ModelProto; external data stays external.

        Raises:
            ModelError: it cannot be written.
        """
        from edgedla.fixes.network.write_model import written_proto

        return written_proto(self.model)

    @typed
    def save(self, path: Union[str, Path]) -> List[Path]:
        """Writes the model (see `save_model`) and a decoder that was cut off (NAME.decoder.onnx), all at once."""
        from edgedla.fixes.network.write_model import save_model

        with publication() as out:
            written = save_model(self.model, path, out)
            place = decoder_path(Path(path))
            earlier = decoder_path(Path(self.source)) if self.source else place
            decoder = self.decoder
            if decoder is None and any(o.decoder for o in self.outputs) and earlier.is_file():
                # An earlier run cut it off; it stays beside the model.
                decoder = earlier.read_bytes()
            if decoder is not None:
                out.write(place, decoder, follow=False)
                written.append(place)
        return written

    def summary(self) -> Dict[str, Any]:
        """What `edgedla check --with-fixes` shows: how many sites of each rewrite, the figures after, the command's end."""
        return {
            "rewrites": self.counts,
            "after": self.after.to_dict(),
            "speedup": speedup(self.before, self.after),
            "interface": list(self.interface),
            "options": f"--for {self.purpose}" if self.purpose != "hybrid" else "",
        }

    def to_dict(self) -> Dict[str, Any]:
        """The versioned document, without the model."""
        return {
            **header("edgedla.fixes"),
            "model": self.name,
            "platform": dict(self.platform),
            "precision": self.precision,
            "for": self.purpose,
            "objective": self.objective,
            "folded_nodes": self.folded,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "applied": [s.to_dict() for s in self.applied],
            "refused": [s.to_dict() for s in self.refused],
            "bundles": [b.to_dict() for b in self.bundles],
            "network_proof": self.network.to_dict(),
            "interface": list(self.interface),
            **({"types": self.types} if self.types else {}),
            "notes": list(self.notes),
            "layers_before": [layer.to_dict() for layer in self.layers_before],
            "layers_after": [layer.to_dict() for layer in self.layers_after],
            "basis": "figures are predicted by edgedla's cost model; proofs are measured with ONNX Runtime on the CPU",
        }


def speedup(before: Figures, after: Figures) -> Optional[float]:
    """before / after of the predicted frame time, or None where one is unknown."""
    if not before.latency_us or not after.latency_us:
        return None
    return before.latency_us / after.latency_us
