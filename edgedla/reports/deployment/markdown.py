"""A deployment as Markdown, for a pull request or a job summary."""

from __future__ import annotations

from typing import Iterator

from edgedla.deployment.deployment import Deployment
from edgedla.reports.deployment.rows import answer, basis, gain, proofs, repeats, rows, subject, worth
from edgedla.reports.markdown import code, escape
from edgedla.text.printable import number


def to_markdown(deployment: Deployment, terminal: bool = False) -> str:
    return "\n".join(_lines(deployment)) + "\n"


def _lines(deployment: Deployment) -> Iterator[str]:
    _, word, sentence = answer(deployment)
    yield f"## {escape(deployment.name)} on {escape(subject(deployment))}\n"
    yield f"**{word}.** {escape(sentence)} {escape(gain(deployment))}\n"
    yield from (f"**{word}.** {escape(sentence)}\n" for _, word, sentence in worth(deployment))
    yield "| | before | after | basis |\n|---|---|---|---|"
    yield from (f"| {escape(r.what)} | {escape(r.before)} | {escape(r.after)} | {r.basis} |" for r in rows(deployment))
    yield "\n### Tried\n\n| Step | Level | Outcome | Why |\n|---|---|---|---|"
    yield from (f"| {escape(t.name)} | {t.level} | {t.outcome} | {escape(t.reason)} |" for t in deployment.trials)
    proved = proofs(deployment)
    if proved:
        yield "\n### Rewritten\n\n| Rewrite | Sites | Proof |\n|---|---|---|"
        yield from (f"| {code(p['rewrite'])} | {p['sites']} | {escape(p['proof'])} |" for p in proved)
    errors = deployment.details["errors"]
    if errors:
        yield "\n### Error in INT8 by tensor (simulated)\n\n| Tensor | Alone, dB | Share of the error |\n|---|---|---|"
        for e in errors[:10]:
            alone = "-" if e["alone_db"] is None else number(e["alone_db"], ".1f")
            share = "-" if e["output_share"] is None else f"{e['output_share']:.2e}"
            yield f"| {code(e['tensor'])} | {alone} | {share} |"
    yield f"\n### Repeat it\n\n{repeats(deployment)[0].upper()}{repeats(deployment)[1:]}.\n\n```sh"
    yield from deployment.commands
    yield "```\n\n### Basis\n"
    yield from (f"- {escape(name)}: {escape(text)}{f' ({badge})' if badge else ''}" for name, text, badge in basis(deployment))
