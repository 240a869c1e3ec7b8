"""RuleSet: the rules of rules/, read when a layer kind first needs them, applied to graphs, I/O tensors and pools."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.data import rules_dir
from edgedla.errors import RuleError, UsageError
from edgedla.graph import LayerGraph
from edgedla.graph.kinds import kind_of
from edgedla.graph.kinds.base import Kind
from edgedla.rules.loader import BORDER_KINDS, RuleFile, load_file
from edgedla.rules.rule import Case, Rule
from edgedla.rules.scope import MODES, PRECISIONS
from edgedla.rules.verdict import Effect, Finding, Support, Verdict
from edgedla.targets import Platform

if TYPE_CHECKING:
    from edgedla.rules.io_kinds import IoTensor

#: Kinds that share a file with another one.
_FILE_OF = {"IDENTITY": "cast"}
_EVERY_KIND = "common"
_NEVER = "gpu_only"
#: Rejections first, then what nobody knows, then warnings.
_ORDER = {Effect.REJECT: 0, Effect.UNKNOWN: 1, Effect.WARN: 2, Effect.SLOW: 3}


class Active(NamedTuple):
    """A rule with the case that holds on one platform."""

    rule: Rule
    case: Case
    effect: Effect


class Found(NamedTuple):
    """A finding, whether it rests on logs only, and whether TensorRT meets it in its second look only."""

    finding: Finding
    observed: bool = False
    second: bool = False


class ActiveRules(NamedTuple):
    """The rules for one layer kind on one platform. `known`: some file was written for this pair."""

    known: bool
    rules: Tuple[Active, ...]


class RuleSet:
    """The rules in one folder. Files are read once, when a layer kind first needs them.

    Args:
        folder: a rules/ folder; edgedla's own by default.
    """

    def __init__(self, folder: Optional[Path] = None) -> None:
        self.folder = folder or rules_dir()
        self._files: Dict[str, Optional[RuleFile]] = {}
        self._active: Dict[Tuple[object, ...], ActiveRules] = {}

    @property
    def version(self) -> str:
        """Twelve hex digits of a SHA-256 over all rule files: two results with one version rest on the same rules."""
        return _version(self.folder)

    def check(
        self, graph: LayerGraph, platform: Platform, precision: str, *, mode: str = "fallback", stage: str = "layer"
    ) -> Tuple[Verdict, ...]:
        """One verdict a live layer, in the graph's order, with every finding (warnings: where it is not refused).

        Args:
            graph: the network as TensorRT's parser makes it.
            platform: module and release. Without DLA every layer answers GPU, with the reason.
            precision: "fp16", or "int8" (INT8 with FP16 allowed).
            mode: "fallback", "strict" or "standalone".
            stage: "layer": `support` is TensorRT's first per-layer check, and what its second look refuses stands in
                `Verdict.validation`. "subgraph": `support` counts the second look too (could run by itself).

        Raises:
            UsageError: unknown precision, mode or stage.
            RuleError: a rule file is wrong.
        """
        _known("precision", precision, PRECISIONS)
        _known("mode", mode, MODES)
        _known("stage", stage, ("layer", "subgraph"))
        if platform.no_dla is not None and not platform.dla_unknown:
            return tuple(_without_dla(layer.index, layer.name, platform.no_dla) for layer in graph.layers)
        active_of: Dict[str, ActiveRules] = {}
        verdicts: List[Verdict] = []
        for layer in graph.layers:
            active = active_of.get(layer.type)
            if active is None:
                active = active_of[layer.type] = self.active(layer.type, platform, precision, mode)
            kind = kind_of(layer, graph)
            findings = _findings(kind, layer.name, active.rules, _element_bytes(kind, platform, precision))
            if not active.known and not any(f.finding.effect is Effect.REJECT for f in findings):
                findings.append(Found(_unwritten(layer.name, layer.type, platform)))
            if platform.dla_unknown:
                findings.append(Found(_unknown_dla(layer.name, str(platform.no_dla))))
            verdicts.append(_verdict(layer.index, layer.name, findings, stage))
        return tuple(verdicts)

    def check_io(
        self,
        graph: LayerGraph,
        platform: Platform,
        precision: str,
        mode: str,
        formats: Optional[Mapping[str, str]] = None,
    ) -> Tuple[Finding, ...]:
        """The rules on network inputs and outputs; `Finding.layer` is the tensor's name.

        Args:
            formats: tensor name to type and format in trtexec's spelling ("int8:chw32"), as the build asks for.
        """
        _known("precision", precision, PRECISIONS)
        _known("mode", mode, MODES)
        if not platform.has_dla:
            return ()
        active = self.active("IO_TENSOR", platform, precision, mode).rules
        found: List[Finding] = []
        for direction, names in (("input", graph.inputs), ("output", graph.outputs)):
            for name in names:
                tensor = _io_tensor(graph, name, direction, precision, (formats or {}).get(name, ""))
                found += [f.finding for f in _findings(tensor, name, active, 1 if precision == "int8" else 2)]
        return tuple(sorted(found, key=lambda f: _ORDER[f.effect]))

    def check_pools(self, pools: Mapping[str, int], platform: Platform) -> Tuple[Finding, ...]:
        """The rules on memory pool sizes: "sram", "local_dram", "global_dram" (or trtexec's dlaSRAM, ...) to bytes."""
        from edgedla.rules.io_kinds import Pool

        active = self.active("POOL", platform, "fp16", "fallback").rules
        found: List[Finding] = []
        for name, size in sorted(pools.items()):
            pool = Pool(pool=_pool_name(name), size_bytes=int(size), hardware_bytes=platform.module.sram_bytes)
            found += [f.finding for f in _findings(pool, name, active, 1)]
        return tuple(sorted(found, key=lambda f: _ORDER[f.effect]))

    def check_loadable(
        self, weight_bytes: int, internal_bytes: int, platform: Platform, name: str = ""
    ) -> Tuple[Finding, ...]:
        """The rules on one DLA subgraph: bytes of its weights, and of its tensors that are neither input nor output."""
        from edgedla.rules.io_kinds import Loadable

        active = self.active("LOADABLE", platform, "fp16", "fallback").rules
        loadable = Loadable(weight_bytes=weight_bytes, internal_bytes=internal_bytes)
        return tuple(f.finding for f in _findings(loadable, name, active, 1))

    def active(self, kind: str, platform: Platform, precision: str, mode: str) -> ActiveRules:
        """The rules that hold for a layer kind on a platform, those for every kind first."""
        key = (kind, platform.chip, platform.release.trt, precision, mode)
        found = self._active.get(key)
        if found is None:
            files = [self._file(_EVERY_KIND)] if kind not in BORDER_KINDS else []
            own = self._own_file(kind)
            scopes = own.written_for if own else ()
            files.append(own)
            rules = [
                Active(rule, case, rule.effect_of(case))
                for file in files
                if file is not None
                for rule in file.rules
                for case in rule.cases
                if case.scope.matches(platform, precision, mode)
            ]
            known = any(s.matches(platform, precision, mode) for s in scopes)
            found = self._active[key] = ActiveRules(known, tuple(rules))
        return found

    def rules(self) -> Tuple[Rule, ...]:
        """Every rule, by id.

        Raises:
            RuleError: a file is wrong, or two rules have the same id or name.
        """
        by_id: Dict[str, Rule] = {}
        for stem in _stems(self.folder):
            file = self._file(stem)
            for rule in file.rules if file else ():
                other = by_id.get(rule.id) or next((r for r in by_id.values() if r.name == rule.name), None)
                if other is not None:
                    raise RuleError(
                        f"the id {rule.id} or the name {rule.name} stands also at {other.where}", where=rule.where
                    )
                by_id[rule.id] = rule
        return tuple(by_id[k] for k in sorted(by_id))

    def _own_file(self, kind: str) -> Optional[RuleFile]:
        file = self._file(_FILE_OF.get(kind, kind.lower()))
        if file is None:
            never = self._file(_NEVER)
            return never if never is not None and kind in never.kinds else None
        return file

    def _file(self, stem: str) -> Optional[RuleFile]:
        if stem not in self._files:
            path = self.folder / "layers" / f"{stem}.yaml"
            self._files[stem] = load_file(path) if path.is_file() else None
        return self._files[stem]


@lru_cache(maxsize=1)
def load_rules() -> RuleSet:
    """The rules that ship with edgedla."""
    return RuleSet()


@lru_cache(maxsize=4)
def _version(folder: Path) -> str:
    import hashlib

    digest = hashlib.sha256()
    for stem in _stems(folder):
        # Line ends are normalised: a checkout on Windows must not change the version.
        digest.update(stem.encode())
        digest.update((folder / "layers" / f"{stem}.yaml").read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:12]


def _stems(folder: Path) -> Sequence[str]:
    return sorted(p.stem for p in (folder / "layers").glob("*.yaml"))


def _findings(kind: Kind, name: str, active: Sequence[Active], element_bytes: int) -> List[Found]:
    """What the layer does not meet."""
    found: List[Found] = []
    for rule, case, effect in active:
        failure = rule.failure(kind, case, element_bytes)
        if failure is None:
            continue
        message, facts = rule.render(kind, case, failure)
        finding = Finding(
            rule=rule.id,
            rule_name=rule.name,
            layer=name,
            effect=effect,
            message=message,
            facts={k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()},
            sources=case.sources,
            fixes=rule.fixes,
        )
        second = rule.stage == "subgraph" and effect in (Effect.REJECT, Effect.UNKNOWN)
        found.append(Found(finding, case.status == "observed", second))
    return found


def _verdict(index: int, name: str, findings: Sequence[Found], stage: str) -> Verdict:
    if not findings:
        return Verdict(index, name, Support.DLA)
    ordered = sorted(findings, key=lambda f: _ORDER[f.finding.effect])
    counted = ordered if stage == "subgraph" else [f for f in ordered if not f.second]
    support, basis = Support.DLA, "rules"
    for effect, answer in ((Effect.REJECT, Support.GPU), (Effect.UNKNOWN, Support.UNKNOWN)):
        deciding = [f.observed for f in counted if f.finding.effect is effect]
        if deciding:
            support, basis = answer, "observed" if all(deciding) else "rules"
            break
    if support is Support.GPU:
        # What runs on the GPU has no cost on the DLA: a warning about it would only hide the reason.
        ordered = [f for f in ordered if f.finding.effect in (Effect.REJECT, Effect.UNKNOWN)]
    first = tuple(f.finding for f in ordered if not f.second)
    return Verdict(index, name, support, first, basis, tuple(f.finding for f in ordered if f.second))


def _without_dla(index: int, name: str, reason: str) -> Verdict:
    finding = Finding("GEN000", "no-dla", name, Effect.REJECT, reason)
    return Verdict(index, name, Support.GPU, (finding,))


def _unknown_dla(name: str, reason: str) -> Finding:
    return Finding("GEN000", "no-dla", name, Effect.UNKNOWN, reason)


def _unwritten(name: str, kind: str, platform: Platform) -> Finding:
    message = f"no rule is written for layer kind {kind} on {platform.chip} with TensorRT {platform.release.trt_text}"
    return Finding("GEN099", "no-rule-written", name, Effect.UNKNOWN, message, {"kind": kind})


def _element_bytes(kind: Kind, platform: Platform, precision: str) -> int:
    """Bytes of one element on the DLA: by the tensor's type where types decide, else by the precision asked for."""
    if platform.release.strongly_typed:
        return 1 if kind.in_dtype == "INT8" else 2
    return 1 if precision == "int8" else 2


def _io_tensor(graph: LayerGraph, name: str, direction: str, precision: str, asked: str) -> IoTensor:
    from edgedla.rules.io_kinds import IoTensor

    tensor = graph.tensors[name]
    dtype, _, layout = asked.lower().partition(":")
    near = graph.consumers(name) if direction == "input" else ()
    readers = [graph.layers[i] for i in near]
    first = next((r for r in readers if r.type != "CONVOLUTION"), readers[0] if readers else None)
    facts = kind_of(first, graph).facts() if first is not None else {}
    return IoTensor(
        in_dims=tensor.dims,
        out_dims=tensor.dims,
        in_dtype=tensor.dtype,
        out_dtype=tensor.dtype,
        name=name,
        direction=direction,
        format=layout,
        io_dtype=dtype,
        compute=precision,
        first_type=first.type if first is not None else "",
        first_groups=int(facts.get("groups", 1)),
        first_dilation=tuple(facts.get("dilation", (1, 1))),
    )


def _pool_name(name: str) -> str:
    plain = name.replace("_", "").lower()
    plain = plain[3:] if plain.startswith("dla") else plain
    plain = plain.replace("managed", "")
    known = {"sram": "SRAM", "localdram": "LOCAL_DRAM", "globaldram": "GLOBAL_DRAM"}
    if plain not in known:
        raise UsageError(f"unknown DLA memory pool {name!r}", allowed="sram, local_dram, global_dram")
    return known[plain]


def _known(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UsageError(f"unknown {name} {value!r}", allowed=", ".join(allowed))
