"""The answer of `fix` as Markdown, for a pull request or a job summary."""

from __future__ import annotations

from typing import Iterator

from edgedla.fixes.result import FixResult
from edgedla.reports.fixes.rewrites import rewrite_rows
from edgedla.reports.fixes.text import figure_rows, headline, proof_text, refused_groups, subject
from edgedla.reports.markdown import code, escape


def to_markdown(result: FixResult) -> str:
    return "\n".join(_lines(result)) + "\n"


def _lines(result: FixResult) -> Iterator[str]:
    yield f"## {escape(subject(result))}\n"
    yield f"**{escape(headline(result)[1])}**\n"
    yield "| | before | after |\n|---|---|---|"
    yield from (
        f"| {escape(what)} | {escape(a)} | {escape(b)} |"
        for what, a, b in figure_rows(result.before, result.after, result.objective)
    )
    yield "\nPredicted by edgedla's cost model.\n"
    yield f"Proofs, ONNX Runtime on the CPU: {escape(proof_text(result))}\n"
    yield from (f"- {escape(text)}" for text in (result.types, *result.interface, *result.notes) if text)
    if result.applied:
        yield "\n### Rewritten\n\n| Rewrite | Sites | What becomes what | Equality | Proof | Without it |\n|---|---|---|---|---|---|"
        for row in rewrite_rows(result):
            cells = (escape(row[key]) for key in ("summary", "equality", "proof", "without"))
            yield f"| {code(row['rewrite'])} | {row['count']} | {' | '.join(cells)} |"
    groups = refused_groups(result)
    if groups:
        yield "\n### Not rewritten\n\n| Rewrite | Sites | Why |\n|---|---|---|"
        yield from (f"| {code(rewrite)} | {len(nodes)} | {escape(reason)} |" for _, rewrite, reason, nodes in groups)
    if result.after.offenders and result.purpose != "hybrid":
        yield f"\n### Still in the way of a {result.purpose} build\n"
        yield ", ".join(code(name) for name in result.after.offenders)
