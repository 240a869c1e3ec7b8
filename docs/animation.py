"""docs/pictures/first-minutes.svg: check, fix, check of MobileNetV3-small, as a terminal that moves.

`record` runs the commands and keeps what they print and say; `draw` makes the picture of that alone. With reduced motion, and
where CSS does not move pictures, its last scene stands still.
"""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parents[1]
MODEL = "mobilenet_v3_small.onnx"
TARGET = "--target orin-nx-16gb"
CHECK = f"edgedla check {MODEL} {TARGET}"
FIX = f"edgedla fix {MODEL} {TARGET} --precision int8 -o fixed.onnx"
AGAIN = f"edgedla check fixed.onnx {TARGET}"
#: Seconds of a scene, of its typing, and of the last one.
SCENE_S, TYPED_S, LAST_S = 6.0, 1.2, 7.0
WIDTH, LINE, TOP, LEFT, COLUMN = 860, 19, 62, 20, 8.43
LINES = 20
_TONES = (
    (("NOT WORTH IT", "  -  "), "bad"),
    (("WORTH IT", "49 sites", "  +  "), "good"),
    (("PARTLY ON THE DLA", "UNKNOWN IN PART", "DLA loadables", "latency per frame", "loadables  "), "dla"),
)


def record(folder: Path) -> Dict[str, Any]:
    """What the three commands print, and the figures of the last scene.

    Returns:
        `scenes`: command and lines of each; `gpu_ms`, `before_ms`, `after_ms`: times per frame; `loadables`: before and after.
    """
    maker = ROOT / "examples" / "12_mobilenet" / "make_model.py"
    subprocess.run([sys.executable, str(maker), MODEL], cwd=folder, check=True)
    printed = {command: _lines(command, folder) for command in (CHECK, FIX, AGAIN)}
    report = json.loads("\n".join(_lines(f"{FIX.replace(' -o fixed.onnx', '')} --dry-run --format json", folder)))
    before, after = report["before"], report["after"]
    return {
        "picture": "first-minutes",
        "scenes": [
            {"command": CHECK, "lines": _part(printed[CHECK], "Change these")},
            {"command": FIX, "lines": _part(printed[FIX], "Proofs")},
            {"command": AGAIN, "lines": _part(printed[AGAIN], "Change these")},
        ],
        "gpu_ms": _ms(before["gpu_us"]),
        "before_ms": _ms(before["latency_us"]),
        "after_ms": _ms(after["latency_us"]),
        "loadables": [before["loadables"], after["loadables"]],
    }


def _lines(command: str, folder: Path) -> List[str]:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-m", *command.split()], cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def _part(lines: List[str], end: str) -> List[str]:
    """The lines before the one that begins with `end`, as many as the picture holds, without rows that name digests."""
    kept = []
    for line in lines:
        if line.startswith(end):
            break
        if not line.startswith("  basis "):
            kept.append(line)
    return kept[: LINES - 1]


def _ms(us: float) -> str:
    return f"{us / 1000:#.3g}"


def draw(said: Dict[str, Any]) -> str:
    """The animated picture."""
    scenes = said["scenes"]
    whole = SCENE_S * len(scenes) + LAST_S
    height = TOP + LINES * LINE + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        'aria-labelledby="t d">',
        '<title id="t">edgedla check, fix, check of MobileNetV3-small</title>',
        f'<desc id="d">{html.escape(_sentence(said))}</desc>',
        f"<style>{_style(len(scenes), whole)}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#14181d"/>',
        '<circle cx="20" cy="20" r="5" fill="#4a5561"/><circle cx="38" cy="20" r="5" fill="#4a5561"/>'
        '<circle cx="56" cy="20" r="5" fill="#4a5561"/>',
        f'<text x="{WIDTH / 2}" y="24" text-anchor="middle" class="dim">a laptop, no Jetson</text>',
    ]
    for number, scene in enumerate(scenes):
        parts.append(f'<g class="scene s{number}">')
        parts.append(
            f'<text x="{LEFT}" y="{TOP}" class="typed t{number}"><tspan class="dim">$ </tspan>{html.escape(scene["command"])}</text>'
        )
        for row, line in enumerate(scene["lines"], 1):
            parts.append(
                f'<text x="{LEFT}" y="{TOP + row * LINE}" class="out o{number} {_tone(line)}">{html.escape(line)}</text>'
            )
        parts.append("</g>")
    parts += [_last(said, len(scenes)), "</svg>"]
    return "\n".join(parts) + "\n"


def _sentence(said: Dict[str, Any]) -> str:
    one, other = said["loadables"]
    return (
        f"MobileNetV3-small in INT8 on Jetson Orin NX, predicted: {said['before_ms']} ms per frame in {one} loadables before fix, "
        f"{said['after_ms']} ms in {other} after it; {said['gpu_ms']} ms on the GPU alone."
    )


def _tone(line: str) -> str:
    return next((tone for begins, tone in _TONES if line.startswith(begins) or line.strip().startswith(begins)), "")


def _last(said: Dict[str, Any], number: int) -> str:
    """Three bars: GPU alone, before, after."""
    rows = (
        ("On the GPU alone", said["gpu_ms"], "", "#e0894b"),
        ("On the DLA as exported", said["before_ms"], _counted(said["loadables"][0]), "#d65f5f"),
        ("On the DLA after edgedla fix", said["after_ms"], _counted(said["loadables"][1]), "#4aa3df"),
    )
    longest = max(float(ms) for _, ms, _, _ in rows)
    parts = [
        f'<g class="scene s{number} last">',
        f'<text x="40" y="{TOP + 26}" class="head">MobileNetV3-small, INT8, Jetson Orin NX</text>',
    ]
    for i, (name, ms, note, colour) in enumerate(rows):
        y = TOP + 76 + i * 84
        width = 480 * float(ms) / longest
        parts += [
            f'<text x="40" y="{y}" class="name">{name}</text>',
            f'<rect x="40" y="{y + 12}" width="{width:.0f}" height="26" rx="3" fill="{colour}"/>',
            f'<text x="{52 + width:.0f}" y="{y + 31}" class="name">{ms} ms<tspan class="dim">  {note}</tspan></text>',
        ]
    parts += [f'<text x="40" y="{TOP + 340}" class="dim">ms per frame, predicted; no board has measured it yet</text>', "</g>"]
    return "\n".join(parts)


def _counted(loadables: int) -> str:
    return f"{loadables} loadable{'' if loadables == 1 else 's'}"


def _style(scenes: int, whole: float) -> str:
    """Each scene is seen in its share of the time; its command is typed first, then its output appears."""

    def share(seconds: float) -> str:
        return f"{100 * seconds / whole:.2f}%"

    rules = [
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d5dbe1;white-space:pre}",
        ".dim{fill:#94a0ac}.bad{fill:#ff9b94}.good{fill:#7ddb9b}.dla{fill:#79bdf7}",
        ".head{font-size:20px;font-weight:bold}.name{font-size:16px}",
        ".scene{opacity:0}.last{opacity:1}",
        "@media (prefers-reduced-motion:no-preference){",
    ]
    for i in range(scenes + 1):
        begin, end = SCENE_S * i, SCENE_S * (i + 1) if i < scenes else whole
        before = f"0%,{share(begin - 0.01)}{{opacity:0}}" if i else ""
        after = f"{share(end)},100%{{opacity:0}}" if i < scenes else ""
        rules.append(
            f"@keyframes k{i}{{{before}{share(begin)},{share(end - 0.01)}{{opacity:1}}{after}}}"
            f".s{i}{{animation:k{i} {whole:g}s infinite step-end}}"
        )
        if i < scenes:
            typed, out = share(begin + TYPED_S), share(begin + TYPED_S + 0.3)
            rules.append(
                f"@keyframes t{i}{{0%,{share(begin)}{{clip-path:inset(0 100% 0 0);animation-timing-function:steps(40)}}"
                f"{typed},100%{{clip-path:inset(0 0 0 0)}}}}.t{i}{{animation:t{i} {whole:g}s infinite}}"
                f"@keyframes o{i}{{0%,{typed}{{opacity:0}}{out},100%{{opacity:1}}}}.o{i}{{animation:o{i} {whole:g}s infinite}}"
            )
    return "".join([*rules, "}"])
