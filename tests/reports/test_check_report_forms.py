"""Every form of a check report: valid against its schema, complete, and safe against names from a hostile model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Callable, Dict, List, Set

import jsonschema
import pytest

from edgedla.errors import ModelError, ModelRefused, UsageError
from edgedla.io.documents import DOCUMENTS, schema
from edgedla.regions.report import CheckReport
from edgedla.reports import CHECK_FORMATS, render_check
from edgedla.reports.json_document import dump
from edgedla.reports.unchecked import Unchecked
from edgedla.targets import platform_for
from tests.reports.conftest import HOSTILE

CASES: Dict[str, Dict[str, Any]] = {
    "fallback": {},
    "strict": {"mode": "strict"},
    "standalone": {"mode": "standalone"},
    "all-on-dla": {"supported": True},
    "no-dla": {"target": "orin-nano-8gb"},
    "dla-unknown": {"target": "orin-nx-16gb", "jetpack": "7.2.2"},
    "hostile-names": {"hostile": True},
}
SARIF_SCHEMA = Path(__file__).parent.parent / "data" / "sarif" / "sarif-schema-2.1.0.json"


def strict(node: Any) -> Any:
    """A schema that also refuses fields it does not document."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: strict(value) for key, value in node.items()}
    if "properties" in made and isinstance(made["properties"], dict):
        made.setdefault("additionalProperties", False)
    return made


@pytest.mark.parametrize("case", sorted(CASES))
def test_json_reports_hold_exactly_the_fields_of_their_schema(case: str, make_report: Callable[..., CheckReport]) -> None:
    document = json.loads(render_check([make_report(**CASES[case])], "json"))
    jsonschema.Draft202012Validator(strict(schema("edgedla.check"))).validate(document)


def test_several_reports_are_one_list_document(make_report: Callable[..., CheckReport]) -> None:
    document = json.loads(render_check([make_report(), make_report(mode="strict")], "json"))
    jsonschema.validate(document, schema("edgedla.check-list"))
    for report in document["reports"]:
        jsonschema.validate(report, schema("edgedla.check"))


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_published_schemas_are_valid_json_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


def test_an_unknown_document_has_no_schema() -> None:
    with pytest.raises(UsageError, match="no document"):
        schema("edgedla.nothing")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_are_refused_in_json(value: float) -> None:
    with pytest.raises(ValueError):
        dump({"x": value})


@pytest.mark.parametrize("case", sorted(CASES))
def test_sarif_is_valid_against_the_standards_schema(case: str, make_report: Callable[..., CheckReport]) -> None:
    text = render_check([make_report(**CASES[case])], "sarif", files=["models/a b.onnx"])
    document = json.loads(text)
    jsonschema.Draft202012Validator(json.loads(SARIF_SCHEMA.read_text())).validate(document)
    run = document["runs"][0]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        # SARIF 2.1.0, 3.27.10: a level other than none goes with kind "fail" alone.
        assert (result["kind"] == "fail") != (result["level"] == "none")
        location = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert location["uri"] == "models/a%20b.onnx"
    prints = [r["partialFingerprints"]["edgedlaFinding/v1"] for r in run["results"]]
    assert len(set(prints)) == len(prints)


def test_sarif_of_a_model_wholly_on_the_dla_holds_only_its_warning(make_report: Callable[..., CheckReport]) -> None:
    run = json.loads(render_check([make_report(supported=True)], "sarif"))["runs"][0]
    assert [(r["ruleId"], r["level"]) for r in run["results"]] == [("XSFT002", "note")]


def test_findings_point_at_the_line_of_the_model_s_own_code(make_report: Callable[..., CheckReport]) -> None:
    from dataclasses import replace

    from edgedla.graph.source import SourceLocation

    report = make_report()
    source = SourceLocation("features.0.2", "models/mobilenetv3.py", 221)
    layers = tuple(replace(layer, source=source if layer.name == "mean" else None) for layer in report.layers)
    text = render_check([replace(report, layers=layers)], "sarif", files=["m.onnx"])
    jsonschema.Draft202012Validator(json.loads(SARIF_SCHEMA.read_text())).validate(json.loads(text))
    places = {
        (x["artifactLocation"]["uri"], x["region"]["startLine"])
        for r in json.loads(text)["runs"][0]["results"]
        for x in (r["locations"][0]["physicalLocation"],)
    }
    assert places == {("models/mobilenetv3.py", 221), ("m.onnx", 1)}
    assert "features.0.2 (mobilenetv3.py:221)" in render_check([replace(report, layers=layers)], "text")


def test_without_gpu_fallback_a_refused_layer_is_an_error_in_sarif(make_report: Callable[..., CheckReport]) -> None:
    def level(report: CheckReport) -> str:
        results = json.loads(render_check([report], "sarif"))["runs"][0]["results"]
        return next(r["level"] for r in results if r["ruleId"] == "XRED001")

    assert level(make_report()) == "warning"
    assert level(make_report(mode="strict")) == "error"


@pytest.mark.parametrize(
    ("fail_on", "failed", "skipped"),
    [
        ("never", [], ["NON_ZERO mystery"]),
        ("unsupported", ["REDUCE mean"], ["NON_ZERO mystery"]),
        ("fallback", ["REDUCE mean"], ["NON_ZERO mystery"]),
        ("unknown", ["REDUCE mean", "NON_ZERO mystery"], []),
    ],
)
def test_junit_fails_offenders_of_fail_on_and_skips_unknown_layers(
    fail_on: str, failed: List[str], skipped: List[str], make_report: Callable[..., CheckReport]
) -> None:
    suite = ET.fromstring(render_check([make_report()], "junit", fail_on=fail_on))[0]
    cases = [case for case in suite if case.get("name") != "network"]
    assert [case.get("name") for case in cases if case.find("failure") is not None] == failed
    assert [case.get("name") for case in cases if case.find("skipped") is not None] == skipped
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
    assert int(suite.get("tests", "")) == len(suite)
    assert int(suite.get("skipped", "")) == len(skipped)


@pytest.mark.parametrize(
    ("case", "output_format"),
    [("fallback", f) for f in CHECK_FORMATS] + [(c, f) for c in ("strict", "no-dla") for f in ("text", "markdown")],
)
def test_reports_match_their_golden_files(
    case: str, output_format: str, make_report: Callable[..., CheckReport], golden: Callable[[str, str], None]
) -> None:
    text = render_check([make_report(**{"jetpack": "6.2", **CASES[case]})], output_format)
    golden(f"reports/{case}.{output_format}", text)


@pytest.mark.parametrize("output_format", ["text", "markdown", "junit", "html"])
def test_control_characters_and_html_in_names_are_escaped_in_reports(
    output_format: str, make_report: Callable[..., CheckReport]
) -> None:
    text = render_check([make_report(hostile=True)], output_format)
    assert "\x1b" not in text
    assert "\\x1b[31m" in text
    if output_format == "html":
        assert "</script><b>" not in text


def test_html_reports_are_self_contained(make_report: Callable[..., CheckReport]) -> None:
    text = render_check([make_report(hostile=True), make_report(mode="strict")], "html")

    ids: Set[str] = set()

    class Parser(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: List[str] = []
            self.seen: List[str] = []
            self.cells = 0

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.seen.append(tag)
            self.cells += tag == "i" and dict(attrs).get("id", "").lstrip("m0123456789-").startswith("L")
            for name, value in attrs:
                assert name not in ("src", "onload", "onclick"), (tag, name)
                assert name != "href" or value.startswith("#"), value
                if name == "id":
                    assert value not in ids, f"two elements are called {value}"
                    ids.add(value)
                assert "url(" not in (value or "")
            if tag not in ("meta", "br", "wbr"):
                self.open.append(tag)

        def handle_startendtag(self, tag: str, attrs: Any) -> None:
            self.handle_starttag(tag, attrs)
            self.open.pop()

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    parser = Parser()
    parser.feed(text)
    assert parser.open == []
    assert "script" not in parser.seen
    assert "default-src 'none'" in text
    assert parser.cells == 12, "every layer of both networks is drawn"
    for target in re.findall('href="#([^"]*)"', text):
        assert target in ids, f"a link leads nowhere: {target}"


def test_html_renders_in_a_browser(make_report: Callable[..., CheckReport], tmp_path: Path) -> None:
    import shutil

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no chromium on this machine")
    page = tmp_path / "report.html"
    page.write_text(render_check([make_report()], "html"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom"]
    done = subprocess.run([browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count('class="cell') == 6 + 5, "six layers and the five of the legend"
    assert "Unknown in part" in done.stdout


def test_text_without_a_terminal_has_no_styles_or_cuts(make_report: Callable[..., CheckReport]) -> None:
    report = make_report()
    assert "rich" not in _modules_after("import edgedla.reports as r; r.render_check([], 'text')")
    assert "\x1b" not in render_check([report], "text")


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("1", False)])
def test_colour_reaches_a_terminal_unless_no_color_is_set(
    no_color: Any, coloured: bool, make_report: Callable[..., CheckReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    text = render_check([make_report()], "text", terminal=True)
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]", text)) == coloured


def test_a_terminal_shows_the_same_lines_as_a_file(
    make_report: Callable[..., CheckReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERM", "xterm-256color")
    for everything in (False, True):
        coloured = render_check([make_report()], "text", terminal=True, everything=everything)
        shown = [line.rstrip() for line in re.sub("\x1b\\[[0-9;]*m", "", coloured).splitlines()]
        assert shown == render_check([make_report()], "text", everything=everything).splitlines()


def test_a_long_layer_name_wraps_on_a_narrow_terminal_and_keeps_every_character(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.reports.text import print_lines

    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    name = "/backbone/" + "x" * 100
    text = print_lines([("", 4, name)], terminal=True)
    assert all(len(line) <= 40 for line in text.splitlines())
    assert "".join(line.strip() for line in text.splitlines()) == name


def test_json_needs_neither_rich_nor_jinja() -> None:
    loaded = _modules_after("import edgedla.reports as r; r.render_check([], 'markdown'); import edgedla.reports.check.json")
    assert not {"rich", "jinja2", "onnx"} & set(loaded)


def _modules_after(code: str) -> List[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_every_refused_layer_is_named_however_many_there_are(make_report: Callable[..., CheckReport]) -> None:
    from dataclasses import replace

    report = make_report()
    mean = report.layers[2]
    many = tuple(replace(mean, index=i, name=f"layer_{i}_end", predecessors=()) for i in range(3000))
    text = render_check([replace(report, layers=many, ranking=(), regions=())], "text", everything=True)
    assert all(f"layer_{i}_end" in text for i in range(3000))
    assert "XRED001  reduce-avg (3000 layers)" in text
    html = render_check([replace(report, layers=many, ranking=(), regions=())], "html").replace("<wbr>", "")
    assert all(f"layer_{i}_end" in html for i in range(3000))


CUT = ModelError("cut off at byte 7", hint="copy it again")


def unchecked(file: str = "models/a b.onnx", error: ModelError = CUT) -> Unchecked:
    return Unchecked(file, error, platform_for("agx-orin-64gb", jetpack="6.2"), "fp16")


REFUSED = ModelRefused("the parser refuses the model: no <such> operator", where="r.onnx, node 'n' [Op]", allowed="others")


@pytest.mark.parametrize("output_format", CHECK_FORMATS)
@pytest.mark.parametrize("checked", [0, 1])
def test_every_form_names_a_model_without_a_report(
    output_format: str, checked: int, make_report: Callable[..., CheckReport]
) -> None:
    models = [unchecked(), unchecked("r.onnx", REFUSED)]
    text = render_check([make_report()] * checked, output_format, unchecked=models)
    plain = re.sub(r"<[^>]*>|\\(?=\W)", "", text) if output_format in ("html", "markdown") else text
    uri = "a%20b.onnx" if output_format == "sarif" else "a b.onnx"
    for words in (uri, "cut off at byte 7", "copy it again", "r.onnx"):
        assert words in plain, words
    assert plain.lower().index("not read") < plain.lower().rindex("does not build")
    quiet = render_check([make_report()] * checked, "text", quiet=True, unchecked=models).splitlines()
    assert len(quiet) == checked + 2
    assert quiet[-2] == "models/a b.onnx on agx-orin-64gb, fp16: NOT READ: cut off at byte 7"


def test_json_with_a_model_without_a_report_is_a_list(make_report: Callable[..., CheckReport]) -> None:
    document = json.loads(render_check([make_report()], "json", unchecked=[unchecked(), unchecked("r.onnx", REFUSED)]))
    rules = strict(schema("edgedla.check-list"))
    # What a report holds stands in the schema of its own.
    rules["properties"]["reports"]["items"].pop("additionalProperties")
    jsonschema.Draft202012Validator(rules).validate(document)
    assert len(document["reports"]) == 1
    assert [(m["file"], m["verdict"], m["error"]["error"]) for m in document["unchecked"]] == [
        ("models/a b.onnx", "Not read", "ModelError"),
        ("r.onnx", "Does not build", "ModelRefused"),
    ]


def test_sarif_of_a_model_without_a_report_is_a_failed_run(make_report: Callable[..., CheckReport]) -> None:
    document = json.loads(render_check([make_report()], "sarif", unchecked=[unchecked()]))
    jsonschema.Draft202012Validator(json.loads(SARIF_SCHEMA.read_text())).validate(document)
    (invocation,) = document["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (told,) = invocation["toolExecutionNotifications"]
    assert told["level"] == "error"
    assert told["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "models/a%20b.onnx"}
    assert "invocations" not in json.loads(render_check([make_report()], "sarif"))["runs"][0]


def test_junit_of_a_model_without_a_report_is_an_error(make_report: Callable[..., CheckReport]) -> None:
    hostile = unchecked(HOSTILE, ModelError(HOSTILE, hint=HOSTILE))
    text = render_check([make_report()], "junit", fail_on="never", unchecked=[unchecked("r.onnx", REFUSED), hostile])
    suites = ET.fromstring(text)
    assert [suite.get("errors") for suite in suites] == ["0", "1", "1"]
    error = suites[1].find("testcase/error")
    assert error is not None
    assert error.get("type") == "ModelRefused"
    assert error.text == "at r.onnx, node 'n' [Op] allowed: others"


BROKEN = [
    ("max-loadables", "models/a b.onnx", "models/a b.onnx: 5 loadables, at most 4 wanted"),
    ("baseline", "models/a b.onnx", "models/a b.onnx on orin: 1 more layer runs off the DLA: <m>"),
    ("baseline", "models/a b.onnx", "models/a b.onnx on orin: 4 to 5 loadables"),
]


def test_sarif_begins_with_an_error_for_each_sentence_of_the_gate(make_report: Callable[..., CheckReport]) -> None:
    document = json.loads(render_check([make_report()], "sarif", files=["models/a b.onnx"], broken=BROKEN))
    jsonschema.Draft202012Validator(json.loads(SARIF_SCHEMA.read_text())).validate(document)
    run = document["runs"][0]
    told = run["results"][: len(BROKEN)]
    assert [(r["ruleId"], r["message"]["text"]) for r in told] == [(name, text) for name, _, text in BROKEN]
    assert {(r["level"], r["kind"]) for r in told} == {("error", "fail")}
    assert {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in told} == {"models/a%20b.onnx"}
    assert [run["tool"]["driver"]["rules"][r["ruleIndex"]]["id"] for r in told] == [name for name, _, _ in BROKEN]
    assert len({r["partialFingerprints"]["edgedlaFinding/v1"] for r in told}) == len(BROKEN)
    assert run["results"][len(BROKEN) :] != []


def test_junit_begins_with_a_failed_test_for_each_limit_and_for_the_baseline(make_report: Callable[..., CheckReport]) -> None:
    limit, baseline, network = ET.fromstring(render_check([make_report()], "junit", fail_on="never", broken=BROKEN))
    assert [suite.get("failures") for suite in (limit, baseline, network)] == ["1", "1", "0"]
    cases = [suite.find("testcase") for suite in (limit, baseline)]
    assert [(c.get("classname"), c.get("name")) for c in cases if c is not None] == [
        ("edgedla", "max-loadables"),
        ("edgedla", "baseline"),
    ]
    failure = baseline.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == f"{BROKEN[1][2]}; {BROKEN[2][2]}"


def test_markdown_begins_with_what_the_gate_says(make_report: Callable[..., CheckReport]) -> None:
    lines = render_check([make_report()], "markdown", broken=BROKEN).splitlines()
    assert lines[0] == "✕ --max-loadables: models/a b.onnx: 5 loadables, at most 4 wanted"
    assert lines[2].startswith("✕ Worse than the baseline: models/a b.onnx on orin: 1 more layer")
    assert "<m>" not in lines[2]
    assert lines[6].startswith("## ")


def test_an_html_report_links_to_models_without_a_report(make_report: Callable[..., CheckReport]) -> None:
    hostile = unchecked(HOSTILE, ModelError(HOSTILE, hint=HOSTILE))
    text = render_check([make_report()], "html", unchecked=[unchecked(), hostile])
    for n in (1, 2, 3):
        assert f'href="#m{n}"' in text
        assert f'id="m{n}"' in text
    assert "<h1>3 models</h1>" in text
    assert "</script>" not in text
    assert "<b>|" not in text


@pytest.mark.parametrize(
    ("form", "quiet"), [("text", False), ("text", True), ("markdown", False), ("junit", False), ("html", False)]
)
def test_models_of_one_name_are_called_by_their_paths(form: str, quiet: bool, make_report: Callable[..., CheckReport]) -> None:
    reports, files = [make_report(), make_report(mode="strict")], ["new/small.onnx", "old/small.onnx"]
    text = render_check(reports, form, files=files, quiet=quiet).replace("<wbr>", "")
    assert re.search(r"\bsmall (on|  )|>small<|\"small\"", text) is None
    assert all(file in text for file in files)
    documents = json.loads(render_check(reports, "json", files=files))["reports"]
    assert [document["model"]["name"] for document in documents] == ["small", "small"]
