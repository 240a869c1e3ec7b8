"""A page for each rule, message, remedy and rewrite, and a list of each: from the data under rules/."""

from __future__ import annotations

from typing import Dict, List, Mapping

from docs.generator.markdown import code, page, plain, table
from docs.generator.rule_examples import examples_of
from edgedla.rules.docs import ENGINE_RULES, all_rules, remedy_entry, sources
from edgedla.rules.messages import Message, messages
from edgedla.rules.remedies import Remedy, RewriteEntry, all_entries, remedies
from edgedla.rules.rule import Case, Rule
from edgedla.text.pages import FOLDERS

_EFFECT = {
    "reject": "the layer is **not on the DLA**",
    "unknown": "**nobody knows** whether the layer runs on the DLA",
    "warn": "the layer runs on the DLA, **with a warning**",
    "slow": "the layer runs on the DLA, **at a cost**",
}
_STAGE = {"layer": "TensorRT's first look at every layer", "subgraph": "TensorRT's second look, inside a candidate subgraph"}
_REMEDY_EFFECT = {
    "moves": "The layer runs on the DLA then.",
    "removes": "The layer is gone then.",
    "precision": "Layers leave INT8, for FP16 on the DLA or the GPU.",
    "stays": "The layer stays on the GPU. Nothing has to be changed.",
}
_FATAL = {True: "fails", False: "goes on", None: "not known"}
_EQUALITY = {
    "bit": "The same bits in FP32.",
    "round": "Sums in another order: relative L2 of at most 1e-5 per site.",
    "approximate": "An approximation. It needs `--approximate`.",
}
_USE = {
    "always": "Tried in every build.",
    "strict": "Tried only for builds without GPU fallback.",
    "asked": "Tried only when `--only` names it.",
    "int8": "Done first in INT8 builds, of the whole model.",
    "typed": "Done first from TensorRT 11 on, of the whole model.",
}


def rule_pages() -> Dict[str, str]:
    """Path within the site -> Markdown, of everything that has an id."""
    made: Dict[str, str] = {}
    for rule in all_rules():
        made[f"{FOLDERS['rule']}/{rule.id}.md"] = _rule(rule)
    for rule_id, (name, text) in ENGINE_RULES.items():
        made[f"{FOLDERS['rule']}/{rule_id}.md"] = page(f"{rule_id} {name}", plain(text))
    for message in messages():
        made[f"{FOLDERS['message']}/{message.id}.md"] = _message(message)
    for remedy in remedies().values():
        made[f"{FOLDERS['remedy']}/{remedy.id}.md"] = _remedy(remedy)
    for entry in all_entries().values():
        made[f"{FOLDERS['rewrite']}/{entry.id}.md"] = _rewrite(entry)
    made.update(_lists())
    return made


def _rule(rule: Rule) -> str:
    kinds = "every layer" if rule.kinds == ("",) else ", ".join(code(k) for k in rule.kinds)
    only = "; ".join(f"{code(fact)} is {' or '.join(code(v) for v in values)}" for fact, values in rule.select.items())
    facts = [
        f"If it is broken, {_EFFECT[rule.effect.value]}.",
        "",
        f"- Layers: {kinds}" + (f", only where {only}" if only else ""),
        f"- Stage: {_STAGE[rule.stage]}",
        f"- Check: {code(rule.check)}",
        "",
    ]
    cases = table(["Where", "Limits", "Status"], [[plain(str(case.scope)), _limits(case), case.status] for case in rule.cases])
    said = list(dict.fromkeys(case.message for case in rule.cases))
    notes = [note for note in (rule.note, *(case.note for case in rule.cases)) if note]
    parts = [
        [plain(rule.summary), "", *facts],
        ["## Limits", "", *cases],
        ["## What a report says", "", *(f"- {code(text)}" for text in said), ""],
    ]
    parts += [["## Notes", "", *(f"- {plain(note)}" for note in dict.fromkeys(notes)), ""]] if notes else []
    if rule.fixes:
        links = [f"- [{plain(remedies()[f].title)}](../remedies/{f}.md). {plain(remedies()[f].text)}" for f in rule.fixes]
        parts.append(["## What to do", "", *links, ""])
    parts.append(_examples(rule))
    parts.append(["## Sources", "", *(f"- {_source(key)}{_cases_of(rule, key)}" for key in rule.sources), ""])
    parts.append(["", f"Offline: `edgedla explain {rule.id}`."])
    return page(f"{rule.id} {rule.name}", *parts, description=rule.summary)


def _cases_of(rule: Rule, source: str) -> str:
    """Which cases rest on a source, where not all do."""
    resting = [str(case.scope) for case in rule.cases if source in case.sources]
    return "" if len(resting) == len(rule.cases) else f" ({plain('; '.join(resting))})"


def _limits(case: Case) -> str:
    return ", ".join(f"{key} {code(_value(value))}" for key, value in case.parameters.items())


def _value(value: object) -> str:
    return ", ".join(str(v) for v in value) if isinstance(value, (list, tuple)) else str(value)


def _examples(rule: Rule) -> List[str]:
    """The boundary examples that the rule's tests run, as facts of a layer."""
    rows = []
    for table_of, example in zip(rule.examples, examples_of(rule)):
        given = table_of["pass"] if "pass" in table_of else table_of["fail"]
        facts = ", ".join(f"{key} {_value(value)}" for key, value in given.items()) or "the default layer"
        where = table_of.table("at") if "at" in table_of else {}
        names = {"precision": "{}", "target": "{}", "trt": "TensorRT {}", "mode": "{}"}
        platform = ", ".join(text.format(where[key]) for key, text in names.items() if key in where)
        rows.append([code(facts), platform or "-", "met" if example.passes else "not met"])
    told = "Each is a test of the rule, in FP16 unless it says otherwise."
    return ["## Examples", "", told, "", *table(["A layer with", "In", "The rule is"], rows)] if rows else []


def _sources(ids: tuple) -> str:
    return "; ".join(_source(key) for key in ids)


def _source(key: str) -> str:
    entry: Mapping[str, str] = sources()[key]
    return f"[{plain(entry['title'])}]({entry['url']})" if entry["url"] else plain(entry["title"])


def _message(message: Message) -> str:
    facts = [
        f"- Printed at: {plain(message.stage)}",
        f"- A build without GPU fallback: {_FATAL[message.fatal]}",
        f"- Seen in: {'TensorRT ' + ', '.join(message.seen) if message.seen else 'a release that is not known'}",
        f"- Sources: {_sources(message.sources)}",
        "",
    ]
    lines = ["```text", *(example for example in message.examples), "```", ""]
    return page(
        f"{message.id} {message.name}",
        lines,
        ["## What it means", "", plain(message.meaning), ""],
        ["## What to do", "", plain(message.advice), "", *facts],
        [f"Offline: `edgedla explain {message.id}`."],
        description=message.meaning,
    )


def _remedy(remedy: Remedy) -> str:
    entry = remedy_entry(remedy.id)
    lines = [f"{plain(remedy.text)} Reports name it {code(remedy.id)}.", "", _REMEDY_EFFECT[remedy.effect], ""]
    if remedy.rewrites:
        links = ", ".join(f"[{code(r)}](../rewrites/{r}.md)" for r in remedy.rewrites)
        lines += ["## What does it", "", f"`edgedla fix MODEL -o OUT --only {remedy.id}` runs {links}.", ""]
    rows = []
    for rule in entry["rules"]:
        where = "; ".join(f"{code(fact)} is {' or '.join(code(v) for v in vs)}" for fact, vs in rule["where"].items())
        rows.append([f"[{rule['id']}](../rules/{rule['id']}.md)", plain(rule["summary"]), where or "always"])
    lines += ["## Rules that name it", "", *table(["Rule", "What must hold", "Where it helps"], rows)] if rows else []
    lines += [f"Offline: `edgedla explain {remedy.id}`."]
    return page(plain(remedy.title), lines, description=remedy.text)


def _rewrite(entry: RewriteEntry) -> str:
    equality = _EQUALITY[entry.equality] + (f" Largest error: {plain(entry.error)}." if entry.error else "")
    named_by = [r for r in remedies().values() if entry.id in r.rewrites]
    lines = [plain(entry.summary) + ".", "", f"- Equality: {equality}", f"- Use: {_USE[entry.use]}"]
    lines += [f"- Helps: {plain(entry.helps)}"]
    lines += [f"- Watch: {plain(entry.watch)}"] if entry.watch else []
    lines += [f"- Remedies: {', '.join(f'[{plain(r.title)}](../remedies/{r.id}.md)' for r in named_by)}"] if named_by else []
    lines += [f"- Sources: {_sources(entry.sources)}", "", "Each site is proven when the rewrite is applied."]
    lines += ["", f"Alone: `edgedla fix MODEL -o OUT {entry.options_alone}`. Offline: `edgedla explain {entry.id}`."]
    return page(entry.id, lines, description=entry.summary)


def _lists() -> Dict[str, str]:
    rule_rows = [
        [
            f"[{r.id}]({r.id}.md)",
            plain(r.summary),
            r.effect.value,
            ", ".join(r.statuses),
            "every layer" if r.kinds == ("",) else ", ".join(r.kinds[:2]) + (", ..." if len(r.kinds) > 2 else ""),
        ]
        for r in all_rules()
    ]
    rule_rows += [[f"[{key}]({key}.md)", plain(text), "-", "-", "every layer"] for key, (_, text) in ENGINE_RULES.items()]
    intro = (
        "Effect, where a rule is not met: **reject**: not on the DLA; **unknown**: nobody knows; **warn**: legal, with a "
        "warning; **slow**: legal, at a cost. Status: **agreed** by the sources; **disputed**: they differ, and a rejection "
        "then answers unknown; **observed**: rests on build logs only."
    )
    return {
        f"{FOLDERS['rule']}/index.md": page(
            "Rules", intro, "", table(["Rule", "What must hold", "Effect", "Status", "Layers"], rule_rows)
        ),
        f"{FOLDERS['message']}/index.md": page(
            "Messages",
            "What TensorRT, trtexec and cuDLA print about the DLA. `edgedla explain LINE` finds the entry.",
            "",
            table(["Message", "Name", "What it means"], [[f"[{m.id}]({m.id}.md)", m.name, plain(m.meaning)] for m in messages()]),
        ),
        f"{FOLDERS['remedy']}/index.md": page(
            "Remedies",
            "What to change so that a layer runs on the DLA. Reports name a remedy by its id.",
            "",
            table(
                ["Remedy", "What to change", "Rewrites"],
                [
                    [
                        f"[{code(r.id)}]({r.id}.md)",
                        plain(r.title),
                        ", ".join(f"[{code(x)}](../rewrites/{x}.md)" for x in r.rewrites),
                    ]
                    for r in remedies().values()
                ],
            ),
        ),
        f"{FOLDERS['rewrite']}/index.md": page(
            "Rewrites",
            "What `edgedla fix` can rewrite. Each site is proven, and taken where the predicted cost says so.",
            "",
            table(
                ["Rewrite", "What becomes what", "Equality", "Use"],
                [[f"[{code(e.id)}]({e.id}.md)", plain(e.summary), e.equality, e.use] for e in all_entries().values()],
            ),
        ),
        f"{FOLDERS['rule']}/sources.md": page(
            "Sources",
            "What rules, messages and rewrites rest on.",
            "",
            table(
                ["Id", "Source", "Kind"],
                [[code(key), _source(key), plain(entry["kind"])] for key, entry in sorted(sources().items())],
            ),
        ),
    }
