"""What the site's search leaves out of a question, in the worker's own script."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from docs.generator.markdown import plain
from docs.generator.search_order import with_order

SCRIPT = """
const handlers = [];
globalThis.self = { location: { href: "https://site/1/assets/javascripts/workers/s.js" }, addEventListener: (_, f) => handlers.push(f) };
%s
const asked = (input) => { const data = { input }; handlers.forEach((f) => f({ data: { type: 2, data } })); return data.input; };
console.log(JSON.stringify(JSON.parse(process.argv[1]).map(asked)));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js on this machine")
def test_words_that_only_make_a_question_hide_no_page() -> None:
    questions = {
        "how many DLA cores has Orin NX": "DLA cores Orin NX",
        "is my model faster on the DLA": "model faster DLA",
        "What is INT8 calibration?": "INT8 calibration",
        "how do I, say, place a layer": "say, place layer",
        # Names of operators and options, and a question of nothing else, stay whole.
        "If Where Or Not": "If Where Or Not",
        "what is this": "what is this",
    }
    script = SCRIPT % with_order("const found = { items: [] }, by = () => undefined, all = []; found.items.sort(by(...all));")
    told = subprocess.run(["node", "-e", script, json.dumps(list(questions))], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    assert dict(zip(questions, json.loads(told.stdout))) == questions


def test_a_text_has_no_backslash_that_markdown_shows() -> None:
    text = "TRT-<version>, a|b, [x], *y*, _z_, e\\f & `<g|h>`"
    assert plain(text) == "TRT-&lt;version\\>, a&#124;b, \\[x\\], \\*y\\*, \\_z\\_, e\\\\f & `<g|h>`"
    markdown = pytest.importorskip("markdown")
    shown = markdown.markdown(plain(text))
    assert shown == "<p>TRT-&lt;version&gt;, a&#124;b, [x], *y*, _z_, e\\f &amp; <code>&lt;g|h&gt;</code></p>"
