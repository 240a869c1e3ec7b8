"""The trtexec backend: a plan as a shell script for one release's trtexec, and what that release cannot express."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Dict, List, Mapping, Optional, Tuple

from edgedla.builder.plan.plan import BuildPlan, IoPlan
from edgedla.data import rules_dir
from edgedla.errors import RuleError
from edgedla.formats import IoFormat, TensorFormat
from edgedla.quantization.calibration_cache import write_cache
from edgedla.version import __version__
from edgedla.vocabulary import GPU

Version = Tuple[int, ...]
MIB = 1 << 20
DEFAULT_TRTEXEC = "/usr/src/tensorrt/bin/trtexec"
#: Ends the calibration cache inside the script; no cache line looks like it.
_END = "EDGEDLA_CALIBRATION_CACHE"


@dataclass(frozen=True)
class TrtexecScript:
    """The script, and what of the plan it does not do.

    Attributes:
        text: a bash script; it takes the model and the output folder as arguments.
        unsaid: what this release's trtexec cannot be told; also in the script, as comments.
        options_of: the release whose help the options were taken from.
    """

    text: str
    unsaid: Tuple[str, ...]
    options_of: str


@dataclass(frozen=True)
class Options:
    """trtexec of one release: the options it has."""

    release: Version
    read: str
    names: Tuple[str, ...]
    standalone_formats: Tuple[str, ...]

    def __contains__(self, name: str) -> bool:
        return name in self.names


@lru_cache(maxsize=None)
def _table() -> Mapping[str, Any]:
    import yaml

    path = rules_dir() / "trtexec.yaml"
    try:
        table: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        return table
    except (OSError, yaml.YAMLError) as e:
        raise RuleError(f"the option table cannot be read: {e}", where=str(path)) from e


def options_of(trt: Version) -> Options:
    """The options of this release; of the newest read release that is not newer, where its own help was not read."""
    table = _table()
    read = [r for r in table["read"] if _version(r)[:2] <= trt[:2]] or [table["read"][0]]
    newest = max(read, key=_version)

    def holds(entry: Mapping[str, str]) -> bool:
        last = entry.get("last")
        return _version(entry["first"])[:2] <= trt[:2] and (last is None or trt[:2] <= _version(last)[:2])

    formats: List[str] = next((e["formats"] for e in table["standalone_formats"] if holds(e)), [])
    names = tuple(name for name, entry in sorted(table["options"].items()) if holds(entry))
    return Options(trt, newest, names, tuple(formats))


def trtexec_script(plan: BuildPlan, trt: Optional[Version] = None) -> TrtexecScript:
    """The script for the plan's TensorRT, or for another release of the same plan.

    Nothing is run. Where the release cannot do what the plan says, the script does the nearest thing and says so.
    """
    release = trt or plan.trt
    writer = _Writer(plan, options_of(release))
    writer.write()
    return TrtexecScript(writer.text(), tuple(writer.unsaid), writer.options.read)


class _Writer:
    """Collects arguments, each already quoted for bash, and what cannot be said."""

    def __init__(self, plan: BuildPlan, options: Options) -> None:
        self.plan, self.options = plan, options
        self.arguments: List[str] = []
        self.unsaid: List[str] = []
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

    def _precision(self) -> None:
        plan = self.plan
        if self.typed:
            if not plan.strongly_typed:
                self.unsaid.append(
                    f"precision {plan.precision}: TensorRT 11 takes it from the model's tensor types. Convert the model "
                    "first: FP16 with modelopt.onnx.autocast --target_dla"
                    + (", INT8 by Q/DQ nodes on every tensor" if plan.precision == "int8" else "")
                )
            return
        if plan.strongly_typed:
            self.unsaid.append(
                "precision: the plan takes it from tensor types, which this release does not; FP16 is set"
            )
        self.add("--fp16")
        if plan.precision == "int8":
            self.add("--int8")
            if plan.calibration.absmax:
                self.add("--calib", '"$OUT/calib.cache"')

    def _formats(self) -> None:
        for name, group in (("--inputIOFormats", self.plan.inputs), ("--outputIOFormats", self.plan.outputs)):
            if all(io.format == "LINEAR" and io.dtype == "FLOAT" for io in group):
                continue
            self.add(name, shlex.quote(",".join(self._format(io) for io in group)))
        if self.plan.mode == "standalone" and self.options.standalone_formats:
            for io in self.plan.io:
                if io.format not in self.options.standalone_formats:
                    self.unsaid.append(
                        f"{io.name} as {io.format}: this trtexec refuses it for standalone builds; it takes "
                        + ", ".join(self.options.standalone_formats)
                    )

    def _format(self, io: IoPlan) -> str:
        return IoFormat(TensorFormat(io.format), io.dtype).trtexec(self.options.release)

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
            value = ",".join(f"{name}:{_mib(size)}" for name, size in sizes if size is not None)
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
                self.unsaid.append(
                    f"{option}: not in this release; the {len(values)} GPU layers fall back by themselves"
                )
            else:
                named = chosen if option == "--layerDeviceTypes" else sorted(values)
                self.unsaid.append(f"{option}: not in this release, so TensorRT decides over: {', '.join(named)}")
            return
        # The option separates its entries by these characters, and has no way to quote them.
        said = {n: v for n, v in values.items() if not set(n) & set(",:")}
        unsayable = [n for n in values if n not in said]
        if unsayable:
            self.unsaid.append(f"{option}: names with ',' or ':' cannot be written: {'; '.join(unsayable)}")
        if said:
            self.arguments.append(f"{option}={shlex.quote(','.join(f'{n}:{v}' for n, v in said.items()))}")

    def text(self) -> str:
        plan, release = self.plan, ".".join(str(n) for n in self.options.release)
        seen = "" if release.startswith(self.options.read) else f" (options as of {self.options.read}, the newest read)"
        comments = [
            f"{plan.model.get('name', '')} for {plan.platform['target']}, {plan.mode}, {plan.precision}.",
            f"Written by edgedla {__version__} for trtexec of TensorRT {release}{seen}.",
            f"Plan made for TensorRT {plan.platform['trt']}; model sha256 {plan.model.get('sha256', '')[:16]}.",
            "usage: script [MODEL.onnx [OUTPUT_FOLDER]]; TRTEXEC=... names another trtexec.",
            *(f"NOT EXPRESSED: {text}" for text in self.unsaid),
            *(f"note: {text}" for text in plan.notes),
        ]
        # A line break in a name must not end the comment it stands in.
        head = ["#!/usr/bin/env bash", *(f"# {' '.join(text.splitlines())}" for text in comments)]
        default_model = shlex.quote(f"{plan.model.get('name', 'model')}.onnx")
        body = [
            "set -euo pipefail",
            f'TRTEXEC="${{TRTEXEC:-{DEFAULT_TRTEXEC}}}"',
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


def _version(text: str) -> Version:
    return tuple(int(n) for n in text.split("."))


def _mib(size_bytes: int) -> str:
    """Size as trtexec reads a bare number: MiB, with a fraction where needed."""
    return f"{size_bytes / MIB:.10g}"
