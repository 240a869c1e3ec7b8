"""The contents common to all forms of a deployment's report: answer, table of before and after, trials, basis."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from edgedla.deployment.candidate import Candidate
from edgedla.deployment.deployment import Deployment
from edgedla.deployment.details import bound_kept
from edgedla.placement.worth.headline import WORDS
from edgedla.reports.page.numbers import beside, megabytes, milliseconds, significant
from edgedla.reports.text import clean
from edgedla.reports.words import percent
from edgedla.text.printable import short

#: Outcome of a trial -> tone of pages and terminals.
TONES: Mapping[str, str] = {"kept": "good", "undone": "mixed", "rejected": "bad", "skipped": "unknown", "failed": "bad"}


class Row(NamedTuple):
    """One figure before and after. `basis`: predicted, fitted, measured, simulated, or "" for a plain fact."""

    what: str
    before: str
    after: str
    basis: str


def subject(deployment: Deployment) -> str:
    """The platform in one line."""
    p = deployment.platform
    jetpack = f"JetPack {p['jetpack']}, " if p.get("jetpack") else ""
    return f"{p['title']}, {jetpack}TensorRT {p['trt']}, level {deployment.request.level}"


def answer(deployment: Deployment) -> Tuple[str, str, str]:
    """(tone, word, sentence)."""
    best, score = deployment.best, deployment.score
    how = clean(best.name) if best.name.startswith("INT8") else f"{clean(best.name)}, {best.precision.upper()}"
    # Steps of an earlier version name no types.
    reference = f"in {score.get('reference', 'FP32')} {significant(score['fp32'])}"
    fell = f"{score['metric']} {significant(score['value'])}, {reference}"
    if deployment.accepted:
        failed = " and ".join(clean(t.name) for t in deployment.trials if t.outcome == "failed" and t.level)
        unknown = f" What {failed} would gain is not known: failed, see Tried." if failed else ""
        word = "Accepted, unchanged" if unchanged(deployment) else "Accepted"
        return "mixed" if failed else "good", word, f"{how}; {fell}.{unknown}"
    if not bound_kept(best, deployment.measured):
        measured = deployment.measured
        took = measured["after"]["latency_us"] if measured else best.value("latency")
        basis = "measured" if measured else "predicted"
        what = f"A frame takes {short(took, 4)} us, {basis}, more than {deployment.request.max_latency_us:g} us"
        return "bad", "Not accepted", f"{what}: {how}."
    if deployment.not_shown:
        return "unknown", "Not shown", f"{how}; {fell}; {clean(deployment.not_shown)}."
    return "bad", "Not accepted", f"Even with {how}, {score['metric']} falls by {significant(score['drop'])}."


def unchanged(deployment: Deployment) -> bool:
    """True if the artifact is the unchanged model. A changed model may cost the same."""
    return deployment.best.name == deployment.first.name


def _types(deployment: Deployment) -> str:
    if not deployment.turned:
        return ""
    release = str(deployment.platform["trt"]).split(".")[0]
    return f", with its types converted to {'FLOAT16' if int(release) >= 11 else 'FLOAT'}"


def gain(deployment: Deployment) -> str:
    """The change of the objective, in one sentence."""
    objective = deployment.request.objective
    before, after = deployment.first.value(objective), deployment.best.value(objective)
    if before == after:
        ending = (
            "the artifact is the unchanged model" + _types(deployment)
            if unchanged(deployment)
            else f"the cost is the same with {clean(deployment.best.name)}"
        )
        return f"No step lowered the predicted cost; {ending}."
    what = {
        "latency": "per frame",
        "throughput": "between frames",
        "energy": "per frame",
        "gpu-time": "of the GPU per frame",
    }.get(objective, "loadables")
    first, last = (_with_unit(objective, value) for value in (before, after))
    return f"Predicted {first} {what} before, {last} after ({before / after:.2f} times better).{against_gpu(deployment)}"


def against_gpu(deployment: Deployment) -> str:
    """The accepted build against the user's own model on the GPU alone; "" if that is not known."""
    alone, now = deployment.first.predicted.get("gpu") or {}, deployment.best.value("latency")
    if not alone:
        return ""
    precision, best_us = min(((p, figures["latency_us"]) for p, figures in alone.items()), key=lambda row: row[1])
    return (
        f" A frame is {beside(now, best_us)} with your model on the GPU alone ({milliseconds(best_us)} in {precision.upper()})."
    )


def worth(deployment: Deployment) -> List[Tuple[str, str, str]]:
    """(tone, word, sentence) of what a check says: the precision that the DLA is made for first, another in few words."""
    said: List[Tuple[str, str, str]] = []
    for headline in deployment.details["worth"]:
        precision, text = headline["precision"].upper(), clean(headline["text"])
        if said and headline["axes"]:
            text = f"{headline['axes'][0]['text']}."
        needs = f", which this DLA is made for, with {headline['needs']}" if headline["needs"] else ""
        mixed = " (with every layer in INT8)" if precision == "INT8" and deployment.best.extra_us else ""
        said.append((WORDS[headline["word"]], headline["word"], f"In {precision}{needs}{mixed}: {text}"))
    return said


def _with_unit(objective: str, value: float) -> str:
    """The objective's value, as the table writes it."""
    if objective == "loadables":
        return f"{value:g}"
    return f"{significant(value)} mJ" if objective == "energy" else milliseconds(value)


def _measured(deployment: Deployment) -> List[Row]:
    if not deployment.measured:
        return []
    before, after = deployment.measured["before"], deployment.measured["after"]
    times = milliseconds(before["latency_us"]), milliseconds(after["latency_us"])
    rates = significant(before["throughput_fps"]), significant(after["throughput_fps"])
    return [Row("Latency per frame", times[0], times[1], "measured"), Row("Frames per second", rates[0], rates[1], "measured")]


def rows(deployment: Deployment) -> List[Row]:
    """Before (the unchanged model, FP16) and after."""
    first, best = deployment.first, deployment.best
    a, b = first.predicted, best.predicted

    def both(what: str, read: Any, basis: str) -> Row:
        return Row(what, read(a), read(b), basis)

    kept = len(deployment.details["mixed_precision"])
    in_fp16 = f", {kept} layer{'s' * (kept != 1)} in FP16" if kept else ""
    fitted, score = cost_basis(deployment), deployment.score
    # With --place dla the build is placed as TensorRT places it: one row covers both.
    on_dla = [Row("Latency on the DLA", _us(first, a["tensorrt"]), _us(best, b["tensorrt"]), fitted)]
    on_dla, macs = (on_dla, "MACs the DLA can run") if deployment.request.place == "best" else ([], "MACs on the DLA")
    table = [
        Row("Precision", first.precision.upper(), best.precision.upper() + in_fp16, ""),
        both("Layers", lambda p: str(p["check"]["layers"]), ""),
        Row("Layers on the DLA", _on_dla(deployment, "layers_before"), _on_dla(deployment, "layers_after"), "predicted"),
        both(macs, lambda p: percent(p["check"]["share_macs_dla"]), "predicted"),
        both("Loadables", lambda p: str(p["build"]["loadables"]), "predicted"),
        Row("Latency per frame", _us(first, a["build"]), _us(best, b["build"]), fitted),
        *on_dla,
        *(
            Row(
                f"Your model on the GPU alone, {p.upper()}", f"{milliseconds(x['latency_us'])} ±{x['spread']:.0%}", "", x["basis"]
            )
            for p, x in (a.get("gpu") or {}).items()
        ),
        *_gpu_time(deployment, fitted),
        *_measured(deployment),
        Row("Frames per second", _rate(first), _rate(best), fitted),
        Row("Energy per frame", _energy(first), _energy(best), fitted),
        Row("Weights and activations", _memory(first), _memory(best), "predicted"),
        Row(f"Metric: {score['metric']}", _scored(deployment.first_score), _scored(score), str(score["basis"])),
    ]
    return table


def _on_dla(deployment: Deployment, which: str) -> str:
    layers = [x for x in deployment.details[which] if x["device"]]
    return f"{sum(x['device'] != 'GPU' for x in layers)} of {len(layers)}"


def _us(candidate: Candidate, figures: Optional[Mapping[str, Any]]) -> str:
    if figures is None:
        return "-"
    value = figures["latency_us"] + candidate.extra_us
    return f"{milliseconds(value)} ±{figures['spread']:.0%}"


def _rate(candidate: Candidate) -> str:
    """Frames per second, including the time that FP16 layers add per frame."""
    figures = candidate.predicted["build"]
    if not candidate.extra_us:
        return significant(figures["throughput_fps"])
    return significant(1e6 / (figures["period_us"] + candidate.extra_us))


def _gpu_time(deployment: Deployment, basis: str) -> List[Row]:
    """The GPU's time, where it is what every step had to lower."""
    if deployment.request.objective != "gpu-time":
        return []
    before, after = (_of_int8(c, milliseconds(c.value("gpu-time"))) for c in (deployment.first, deployment.best))
    return [Row("GPU time per frame", before, after, basis)]


def _energy(candidate: Candidate) -> str:
    return _of_int8(candidate, f"{significant(candidate.predicted['build']['energy_mj'])} mJ")


def _memory(candidate: Candidate) -> str:
    size = candidate.predicted["build"].get("memory_bytes")
    return "-" if size is None else _of_int8(candidate, megabytes(size))


def _of_int8(candidate: Candidate, text: str) -> str:
    """Marks a figure predicted with every layer in INT8: layers in FP16 take longer."""
    return f"{text} or more" if candidate.extra_us else text


def _scored(score: Mapping[str, Any]) -> str:
    return f"{significant(score['value'])} [{significant(score['low'])}, {significant(score['high'])}]"


def cost_basis(deployment: Deployment) -> str:
    """The basis of the predicted times of what was built: fitted, guessed or measured."""
    return str(deployment.best.predicted["build"].get("basis", "predicted"))


def basis(deployment: Deployment) -> List[Tuple[str, str, str]]:
    """(name, text, badge) of the basis of the figures."""
    samples = deployment.samples
    mode = deployment.details["power_mode"]
    fitted = (
        f"edgedla's cost model{f' in {mode}' if mode else ''}; ± one standard deviation; frames per second with many in flight"
    )
    entries = [
        ("Times, energy", fitted if deployment.measured else f"{fitted}; no board took part", cost_basis(deployment)),
        ("Layers, loadables", "edgedla's rules and TensorRT's parser as it is known", "predicted"),
        ("Accuracy", f"{samples['final']}; no step looked at them", "simulated" if deployment.artifact.simulated else "measured"),
        ("Calibration", str(samples["calibration"] or "no samples"), ""),
        ("Steps judged on", str(samples["search"]), ""),
    ]
    entries += [(f"SHA-256 of {what.replace('_', ' ')}", digest, "") for what, digest in deployment.hashes.items()]
    entries += [(name, version, "") for name, version in deployment.versions.items() if version]
    return entries + [("Note", note, "") for note in deployment.notes]


def proofs(deployment: Deployment) -> List[Dict[str, Any]]:
    """Rewrites of the accepted build: rewrite, sites, proof."""
    by_rewrite: Dict[str, Dict[str, Any]] = {}
    for site in deployment.details["proofs"]:
        row = by_rewrite.setdefault(site["rewrite"], {"rewrite": site["rewrite"], "sites": 0, "statuses": {}, "worst": None})
        row["sites"] += 1
        row["statuses"][site["status"]] = row["statuses"].get(site["status"], 0) + 1
        if site["rel_l2"] is not None:
            row["worst"] = max(row["worst"] or 0.0, site["rel_l2"])
    for row in by_rewrite.values():
        statuses = ", ".join(f"{n} {status}" for status, n in sorted(row["statuses"].items()))
        row["proof"] = statuses + (f", differs by at most {row['worst']:.1e}" if row["worst"] is not None else "")
    return list(by_rewrite.values())


def repeats(deployment: Deployment) -> str:
    """A sentence on what the commands give."""
    first = "the first gives this same result"
    if deployment.best.quantization is None:
        return first
    return f"{first}; quantize run by itself calibrates on more of DATA, because it holds back no samples to judge the result"
