"""RuleSet: the rules of rules/, applied to graphs, I/O tensors and memory pools. Reads a file when first needed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import RuleError
from edgedla.graph import LayerGraph
from edgedla.graph.kinds import Kind, kind_of
from edgedla.graph.open_sizes import has_no_shape
from edgedla.io.data import rules_dir
from edgedla.rules.apply import (
    ORDER,
    Active,
    ActiveRules,
    RuleFinding,
    element_bytes_of,
    findings_of,
    unwritten,
    verdict_of,
    without_dla,
)
from edgedla.rules.loader import BORDER_KINDS, RuleFile, load_file
from edgedla.rules.rule import Rule
from edgedla.rules.verdict import Effect, Finding, Verdict
from edgedla.targets import Platform
from edgedla.vocabulary import CHECK_MODES, PRECISIONS, one_of

#: Kinds whose rules are in another kind's file.
_FILE_OF = {"IDENTITY": "cast", "DEQUANTIZE": "quantize", "DYNAMIC_QUANTIZE": "quantize"}
_EVERY_KIND = "common"
_NEVER = "gpu_only"
#: Most layer kinds (with their facts) whose verdicts are cached; a large network has a few hundred.
_MOST_KINDS = 10_000


class RuleSet:
    """The rules in one folder. Files are read once, when a layer kind first needs them.

    Args:
        folder: a rules/ folder; edgedla's own by default.
    """

    def __init__(self, folder: Optional[Path] = None) -> None:
        self.folder = folder or rules_dir()
        self._files: Dict[str, Optional[RuleFile]] = {}
        self._active: Dict[Tuple[object, ...], ActiveRules] = {}
        self._verdicts: Dict[Tuple[object, ...], Dict[Kind, Verdict]] = {}

    @property
    def version(self) -> str:
        """Twelve hex digits of a SHA-256 over all rule files. Equal versions mean equal rules."""
        return _version(self.folder)

    def check(
        self, graph: LayerGraph, platform: Platform, precision: str, *, mode: str = "fallback", stage: str = "layer"
    ) -> Tuple[Verdict, ...]:
        """One verdict per live layer, in the graph's order, with every finding (warnings only if it is not refused).

        Args:
            graph: the network as TensorRT's parser makes it.
            platform: module and release. Without a DLA every verdict is GPU, with the reason.
            precision: "fp16", or "int8" (INT8 with FP16 allowed).
            mode: "fallback", "strict" or "standalone".
            stage: "layer": `support` answers TensorRT's first per-layer check, and `Verdict.validation` holds what its
                second look refuses. "subgraph": `support` includes the second look.

        Raises:
            UsageError: unknown precision, mode or stage.
            RuleError: a rule file is wrong.
        """
        precision, mode = one_of("precision", precision, PRECISIONS), one_of("mode", mode, CHECK_MODES)
        stage = one_of("stage", stage, ("layer", "subgraph"))
        if platform.no_dla is not None and not platform.dla_unknown:
            return tuple(without_dla(layer.index, layer.name, platform.no_dla) for layer in graph.layers)
        active_of: Dict[str, ActiveRules] = {}
        # Rules see only a layer's facts, so verdicts are cached by facts: a transformer has thousands of layers with few
        # different facts, and a search checks hundreds of forms of one network.
        verdict_on = self._verdicts_on(platform, precision, mode, stage)
        verdicts: List[Verdict] = []
        unknown_nodes = {i: node.unknown for node in graph.nodes if node.unknown for i in node.layers}
        for layer in graph.layers:
            kind = kind_of(layer, graph)
            verdict = verdict_on.get(kind)
            if verdict is not None and layer.index not in unknown_nodes:
                verdicts.append(verdict.of_layer(layer.index, layer.name))
                continue
            active = active_of.get(layer.type)
            if active is None:
                active = active_of[layer.type] = self.active(layer.type, platform, precision, mode)
            findings = findings_of(kind, layer.name, active.rules, element_bytes_of(kind, platform, precision))
            why = unknown_nodes.get(layer.index, "")
            if not active.known and (why or not any(f.finding.effect is Effect.REJECT for f in findings)):
                fixes = ("static-shapes",) if why and any(has_no_shape(graph, t) for t in layer.inputs) else ()
                findings.append(RuleFinding(unwritten(layer.name, layer.type, platform, why, fixes)))
            if platform.dla_unknown:
                findings.append(RuleFinding(Finding("GEN000", "no-dla", layer.name, Effect.UNKNOWN, str(platform.no_dla))))
            verdict = verdict_on[kind] = verdict_of(layer.index, layer.name, findings, stage)
            verdicts.append(verdict)
        return tuple(verdicts)

    def _verdicts_on(self, platform: Platform, precision: str, mode: str, stage: str) -> Dict[Kind, Verdict]:
        """The cached verdicts for one platform, precision, mode and stage, by kind (a layer's facts)."""
        release = platform.release.trt_text
        key = (platform.module.id, release, platform.no_dla, platform.dla_unknown, precision, mode, stage)
        verdicts = self._verdicts.get(key)
        if verdicts is None or len(verdicts) > _MOST_KINDS:
            verdicts = self._verdicts[key] = {}
        return verdicts

    def check_io(
        self, graph: LayerGraph, platform: Platform, precision: str, mode: str, formats: Optional[Mapping[str, str]] = None
    ) -> Tuple[Finding, ...]:
        """Findings on network inputs and outputs; `Finding.layer` is the tensor's name.

        Args:
            formats: tensor name -> type and format that the build asks for, in trtexec's spelling ("int8:chw32").
        """
        precision, mode = one_of("precision", precision, PRECISIONS), one_of("mode", mode, CHECK_MODES)
        if not platform.has_dla:
            return ()
        from edgedla.rules.border import io_tensor

        active = self.active("IO_TENSOR", platform, precision, mode).rules
        findings: List[Finding] = []
        for direction, names in (("input", graph.inputs), ("output", graph.outputs)):
            for name in names:
                tensor = io_tensor(graph, name, direction, precision, (formats or {}).get(name, ""))
                findings += [f.finding for f in findings_of(tensor, name, active, 1 if precision == "int8" else 2)]
        return tuple(sorted(findings, key=lambda f: ORDER[f.effect]))

    def check_pools(self, pools: Mapping[str, int], platform: Platform) -> Tuple[Finding, ...]:
        """Findings on memory pool sizes in bytes, by "sram", "local_dram", "global_dram" (or trtexec's dlaSRAM, ...)."""
        from edgedla.rules.border import pool_name
        from edgedla.rules.io_kinds import Pool

        active = self.active("POOL", platform, "fp16", "fallback").rules
        findings: List[Finding] = []
        for name, size in sorted(pools.items()):
            pool = Pool(pool=pool_name(name), size_bytes=int(size), hardware_bytes=platform.module.sram_bytes)
            findings += [f.finding for f in findings_of(pool, name, active, 1)]
        return tuple(sorted(findings, key=lambda f: ORDER[f.effect]))

    def check_loadable(self, weight_bytes: int, internal_bytes: int, platform: Platform, name: str = "") -> Tuple[Finding, ...]:
        """Findings on one DLA subgraph: bytes of its weights, and of its tensors that are neither input nor output."""
        from edgedla.rules.io_kinds import Loadable

        active = self.active("LOADABLE", platform, "fp16", "fallback").rules
        loadable = Loadable(weight_bytes=weight_bytes, internal_bytes=internal_bytes)
        return tuple(f.finding for f in findings_of(loadable, name, active, 1))

    def limit(self, kind: str, rule_id: str, platform: Platform) -> int:
        """A rule's `max` on a platform, for predictions that need the number and not only a finding.

        Raises:
            RuleError: the rule has no case for the platform, or no `max`.
        """
        for rule, case, _ in self.active(kind, platform, "fp16", "fallback").rules:
            if rule.id == rule_id and "max" in case.parameters:
                return int(case.parameters["max"])
        raise RuleError(f"{rule_id} states no limit for TensorRT {platform.release.trt_text}", where=f"rules/{kind}")

    def active(self, kind: str, platform: Platform, precision: str, mode: str) -> ActiveRules:
        """The rules that hold for a layer kind on a platform, those for every kind first."""
        key = (kind, platform.chip, platform.release.trt, precision, mode)
        active = self._active.get(key)
        if active is None:
            files = [self._file(_EVERY_KIND)] if kind not in BORDER_KINDS else []
            file_of_kind = self._own_file(kind)
            scopes = file_of_kind.written_for if file_of_kind else ()
            files.append(file_of_kind)
            rules = [
                Active(rule, case, rule.effect_of(case))
                for file in files
                if file is not None
                for rule in file.rules
                for case in rule.cases
                if case.scope.matches(platform, precision, mode)
            ]
            covered = any(s.matches(platform, precision, mode) for s in scopes)
            active = self._active[key] = ActiveRules(covered, tuple(rules))
        return active

    def rule(self, rule_id: str) -> Rule:
        """The rule with this id, without its examples; files that were read before are looked at first."""
        files = (self._file(stem) for stem in (*self._files, *_stems(self.folder)))
        return next(rule for file in files if file for rule in file.rules if rule.id == rule_id)

    def rules(self) -> Tuple[Rule, ...]:
        """Every rule with its examples, by id.

        Raises:
            RuleError: a file is wrong, or two rules have the same id or name.
        """
        by_id: Dict[str, Rule] = {}
        for stem in _stems(self.folder):
            for rule in load_file(self.folder / "layers" / f"{stem}.yaml", examples=True).rules:
                other = by_id.get(rule.id) or next((r for r in by_id.values() if r.name == rule.name), None)
                if other is not None:
                    raise RuleError(f"the id {rule.id} or the name {rule.name} stands also at {other.where}", where=rule.where)
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
