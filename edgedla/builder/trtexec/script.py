"""The trtexec backend: a plan as a shell script for one release's trtexec, and what that release cannot express."""

from __future__ import annotations

import fnmatch
import shlex
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from edgedla.builder.plan.plan import BuildPlan, IoPlan
from edgedla.builder.plan.pools import in_mib
from edgedla.builder.trtexec.options import Options, Version, options_of
from edgedla.errors import UsageError
from edgedla.formats import IoFormat, TensorFormat
from edgedla.importers.parser_releases import ADJUST, REPORT, UINT8, parser_flags
from edgedla.quantization.calibration_cache import write_cache
from edgedla.version import version
from edgedla.vocabulary import GPU

DEFAULT_TRTEXEC = "/usr/src/tensorrt/bin/trtexec"
#: trtexec's options for flags of the parser.
PARSER_OPTIONS = {UINT8: "--uint8AsymmetricQuantizationDLA", REPORT: "--reportCapabilityDLA", ADJUST: "--adjustForDLA"}
#: Ends the calibration cache inside the script; no cache line looks like it.
_END = "EDGEDLA_CALIBRATION_CACHE"


@dataclass(frozen=True)
class TrtexecScript:
    """The script, and the parts of the plan that it cannot express.

    Attributes:
        text: a bash script; it takes the model and the output folder as arguments.
        unsaid: parts of the plan that this release's trtexec has no option for; also comments in the script.
        options_of: the release whose help the options were taken from.
    """

    text: str
    unsaid: Tuple[str, ...]
    options_of: str


def trtexec_script(plan: BuildPlan, trt: Optional[Version] = None, converted: str = "") -> TrtexecScript:
    """The script for the plan's TensorRT, or for another release of the same plan.

    Args:
        converted: name of the model as FLOAT16 beside the script, which it then takes where no other is named.

    Runs nothing. If the release cannot do what the plan says, the script does the closest thing and says so.
    """
    release = trt or plan.trt
    writer = _Writer(plan, options_of(release), converted)
    writer.write()
    return TrtexecScript(writer.text(), tuple(writer.unsaid), writer.options.read)


class _Writer:
    """Collects arguments, each already quoted for bash, and the parts of the plan that have no option."""

    def __init__(self, plan: BuildPlan, options: Options, converted: str) -> None:
        self.plan, self.options, self.converted = plan, options, converted
        self.arguments: List[str] = []
        self.unsaid: List[str] = []
        self.notes: List[str] = []
        self.typed = options.release >= (11,)

    def add(self, name: str, value: Optional[str] = None, otherwise: str = "") -> None:
        if name in self.options:
            self.arguments.append(name if value is None else f"{name}={value}")
        elif otherwise:
            self.unsaid.append(f"{name}: {otherwise}")

    def write(self) -> None:
        plan = self.plan
        self.add("--onnx", '"$MODEL"')
        result = "model.engine" if plan.mode == "hybrid" else "model.dla.bin"
        self.add("--saveEngine", f'"$OUT/{result}"')
        self._shapes()
        self._device()
        self._precision()
        self._formats()
        self._pools()
        self._layers()
        if plan.sparsity:
            self.add("--sparsity", "enable")
        if plan.timing_cache:
            self.add("--timingCacheFile", '"$OUT/timing.cache"')
        self.add("--profilingVerbosity", "detailed")
        if plan.mode == "hybrid":
            self.add("--exportLayerInfo", '"$OUT/layers.json"')
        self.add("--verbose")
        self.add("--skipInference" if "--skipInference" in self.options else "--buildOnly")

    def _shapes(self) -> None:
        dynamic = [io for io in self.plan.inputs if io.dynamic]
        if dynamic:
            if any(mark in io.name for io in dynamic for mark in ",'"):
                raise UsageError(
                    "trtexec's --shapes cannot name an input with a comma or a quote in its name",
                    where=self.plan.model["name"],
                    hint="`edgedla fix MODEL --shapes ... -o OUT` writes a model of fixed sizes, which needs no --shapes",
                )
            shapes = (f"{io.name}:{'x'.join(str(d) for d in io.shape_nchw)}" for io in dynamic)
            self.add("--shapes", shlex.quote(",".join(shapes)))

    def _device(self) -> None:
        plan = self.plan
        if plan.dla_core is None:
            return
        self.add("--useDLACore", str(plan.dla_core))
        if plan.gpu_fallback:
            self.add("--allowGPUFallback")
        if plan.direct_io:
            self.add("--directIO")
        flags = parser_flags(plan.notes, plan.gpu_fallback)
        for flag in (option for name, option in PARSER_OPTIONS.items() if name in flags and option in self.options):
            self.add(flag)
        if plan.mode == "standalone":
            if "--buildDLAStandalone" in self.options:
                self.add("--buildDLAStandalone")
            else:
                self.add("--safe")
                self.unsaid.append(
                    "--buildDLAStandalone: arrives with 8.6. --safe with a DLA core asks for the same here, but the "
                    "trtexec that JetPack 5 ships was built without it: NVIDIA's sample patches and rebuilds it. "
                    "`edgedla build` on the device needs no patch"
                )
                self.notes.append(
                    "a good build ends with [E] 'Cannot deserialize serialized engine built with "
                    "EngineCapability::kDLA_STANDALONE' and PASSED: this trtexec tries to load what only cuDLA can"
                )

    def _precision(self) -> None:
        plan = self.plan
        if self.typed:
            if not plan.strongly_typed:
                self.unsaid.append(
                    f"precision {plan.precision}: TensorRT 11 takes it from the model's tensor types. Convert the model "
                    f"first: `edgedla fix MODEL --trt {'.'.join(map(str, self.options.release))} -o OUT` makes it FP16"
                )
            return
        if plan.strongly_typed:
            self.unsaid.append("precision: the plan takes it from tensor types, which this release does not; FP16 is set")
        self.add("--fp16")
        if plan.precision == "int8":
            self.add("--int8")
            if plan.calibration.absmax:
                self.add("--calib", '"$OUT/calib.cache"')

    def _formats(self) -> None:
        for name, group in (("--inputIOFormats", self.plan.inputs), ("--outputIOFormats", self.plan.outputs)):
            if all(io.format == "LINEAR" and io.dtype == "FLOAT" for io in group):
                continue
            entries = [self._format(io) for io in group]
            if name == "--outputIOFormats" and self._counts_outputs_as_inputs():
                if len(set(entries)) > 1:
                    self.unsaid.append(
                        f"{name}={','.join(entries)}: with INT8 inputs or outputs this trtexec takes one entry, or as many as "
                        "there are inputs (mended in 8.6.1)"
                    )
                    continue
                # One entry applies to all tensors of the direction.
                entries = entries[:1]
            self.add(name, shlex.quote(",".join(entries)))

    def _counts_outputs_as_inputs(self) -> bool:
        """setTensorScalesFromCalibration of 8.4.1 and 8.5.2 spreads the output formats over the number of inputs."""
        plan = self.plan
        has_int8 = any(io.dtype == "INT8" for io in plan.io)
        return self.options.release < (8, 6, 1) and has_int8 and len(plan.inputs) != len(plan.outputs) > 1

    def _format(self, io: IoPlan) -> str:
        name = io.format
        if self.plan.mode == "standalone":
            accepted = self.options.standalone_format(io.format, io.is_input)
            if accepted is None:
                formats = self.options.input_formats if io.is_input else self.options.output_formats
                self.unsaid.append(
                    f"{io.name} as {io.format}: this trtexec refuses it for standalone builds; it takes {', '.join(formats)}"
                )
            elif accepted != io.format:
                self.notes.append(f"{io.name}: {io.format} under the older name that this trtexec takes, {accepted}")
            name = accepted or io.format
        return IoFormat(TensorFormat(name), io.dtype).trtexec(self.options.release)

    def _pools(self) -> None:
        pools = self.plan.pools
        sizes = [("workspace", pools.workspace_bytes)] if pools.workspace_bytes is not None else []
        if self.plan.dla_core is not None:
            sizes += [
                ("dlaSRAM", pools.dla_sram_bytes),
                ("dlaLocalDRAM", pools.dla_local_dram_bytes),
                ("dlaGlobalDRAM", pools.dla_global_dram_bytes),
            ]
        if sizes:
            value = ",".join(f"{name}:{in_mib(size)}" for name, size in sizes if size is not None)
            self.add("--memPoolSize", value, "memory pools cannot be set; TensorRT's defaults hold")

    def _layers(self) -> None:
        plan = self.plan
        if plan.mode == "hybrid" and plan.dla_core is not None:
            # With a DLA core every layer starts on the DLA, so those for the GPU are named.
            self._by_layer("--layerDeviceTypes", {x.name: "GPU" for x in plan.layers if x.device == GPU})
        precisions = {x.name: x.precision for x in plan.layers if x.precision}
        if precisions:
            before = len(self.arguments)
            self._by_layer("--layerPrecisions", precisions)
            if len(self.arguments) > before:
                self.add("--precisionConstraints", "obey" if plan.obey_precision else "prefer")

    def _by_layer(self, option: str, values: Dict[str, str]) -> None:
        if not values:
            return
        if option not in self.options:
            chosen = [x.name for x in self.plan.layers if x.name in values and x.capable != "gpu"]
            if option == "--layerDeviceTypes" and not chosen:
                self.unsaid.append(f"{option}: not in this release; the {len(values)} GPU layers fall back by themselves")
            else:
                named = chosen if option == "--layerDeviceTypes" else sorted(values)
                self.unsaid.append(f"{option}: not in this release, so TensorRT decides over: {', '.join(named)}")
            return
        expressible = {n: v for n, v in values.items() if not self._problem(n)}
        problems: Dict[str, List[str]] = {}
        for name in values:
            if name not in expressible:
                problems.setdefault(self._problem(name), []).append(name)
        for name in [n for n in expressible if self._is_pattern(n)]:
            # A pattern may also match other layers. A layer with an entry of its own keeps its own value.
            others = [x.name for x in self.plan.layers if x.name not in values and _hits(name, x.name)]
            if others and option == "--layerDeviceTypes" and not any(self._problem(n) for n in others):
                expressible.update({n: "DLA" for n in others})
            elif others:
                del expressible[name]
                problems.setdefault(f"they would also hit {', '.join(others)} ('*' stands for any text)", []).append(name)
        for problem, names in problems.items():
            self.unsaid.append(f"{option}: cannot be written: {'; '.join(names)}: {problem}")
        if expressible:
            entries = ",".join(f"{n}:{v}" for n, v in expressible.items())
            self.arguments.append(f"{option}={shlex.quote(entries)}")

    def _problem(self, name: str) -> str:
        """Why the option cannot hold this name; "" if it can. Colons are fine: trtexec splits at the last one."""
        if "," in name:
            return "',' separates the option's entries"
        if "'" in name and self.options.release < (10, 8):
            return 'this trtexec takes "\'" for a quote'
        return ""

    def _is_pattern(self, name: str) -> bool:
        return "*" in name and self.options.release >= (9,)

    def text(self) -> str:
        plan, release = self.plan, ".".join(str(n) for n in self.options.release)
        options_note = "" if release.startswith(self.options.read) else f" (options as of {self.options.read}, the newest read)"
        comments = [
            f"{plan.model.get('name', '')} for {plan.platform['target']}, {plan.mode}, {plan.precision}.",
            f"Written by edgedla {version()} for trtexec of TensorRT {release}{options_note}.",
            f"Plan made for TensorRT {plan.platform['trt']}; model sha256 {plan.model.get('sha256', '')[:16]}.",
            "usage: script [MODEL.onnx [OUTPUT_FOLDER]]; TRTEXEC=... names another trtexec.",
            *(f"NOT EXPRESSED: {text}" for text in self.unsaid),
            *(f"note: {text}" for text in (*plan.notes, *self.notes)),
        ]
        # A line break in a name must not end the comment.
        head = ["#!/usr/bin/env bash", *(f"# {' '.join(text.splitlines())}" for text in comments)]
        default_model = shlex.quote(f"{plan.model.get('name', 'model')}.onnx")
        if self.converted:
            # The script and the converted model stay together.
            default_model = f'"$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"/{shlex.quote(self.converted)}'
        body = [
            "set -euo pipefail",
            f'TRTEXEC="${{TRTEXEC:-$(command -v trtexec || echo {DEFAULT_TRTEXEC})}}"',
            f"MODEL={default_model}",
            'if [ "$#" -ge 1 ]; then MODEL="$1"; fi',
            'OUT="${2:-.}"',
            'mkdir -p "$OUT"',
        ]
        if any(a.startswith("--calib=") for a in self.arguments):
            cache = write_cache(plan.calibration.absmax, self.options.release)
            body += [f"cat > \"$OUT/calib.cache\" <<'{_END}'", cache.rstrip("\n"), _END]
        body += ["arguments=(", *(f"  {a}" for a in self.arguments), ")"]
        body.append('"$TRTEXEC" "${arguments[@]}" 2>&1 | tee "$OUT/build.log"')
        return "\n".join([*head, *body]) + "\n"


def _hits(pattern: str, name: str) -> bool:
    """True if the pattern matches this name in trtexec, where '*' is the only wildcard."""
    parts = [part.translate({ord(c): f"[{c}]" for c in "[?"}) for part in pattern.split("*")]
    return fnmatch.fnmatchcase(name, "*".join(parts))
