"""Every picture of the documentation has the texts with numbers that it shows beside it, and the commands still print them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import List

import pytest
import yaml

from docs import animation, home_assistant, make_pictures
from docs.chrome import CHROMIUM, open_page
from edgedla.runtime.outputs.home_assistant import HomeAssistant
from edgedla.runtime.pipeline.config import load_config
from edgedla.runtime.pipeline.lane import STAGES

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
EXAMPLE = ROOT / "examples" / "05_many_cameras"
AGAIN = "the picture is stale: make pictures PICTURES="
#: These run the quantiser, a sweep or the search for a minimum for several seconds.
LONG = ("quantize", "sweep", "place", "notebook")

pytestmark = [pytest.mark.long, pytest.mark.once, pytest.mark.skipif(sys.version_info < (3, 10), reason="fix needs Python 3.10")]
COMPARED = [name for name in make_pictures.COMMANDS if name not in (*make_pictures.LIVE, "home-assistant")]


def said(name: str) -> List[str]:
    return list(json.loads((PICTURES / f"{name}.json").read_text(encoding="utf-8"))["shows"])


def test_every_picture_is_made_by_the_script_and_has_its_figures() -> None:
    made = {
        f"{name}-{look}.png"
        for name in make_pictures.COMMANDS
        for look in make_pictures.LOOKS
        if look == "desktop" or name in make_pictures.EVERY_LOOK
    } | {"first-minutes.svg"}
    kept = {path.name for path in PICTURES.iterdir() if path.suffix != ".json"}
    assert kept == made
    names = {re.split(r"-(?:desktop|phone|dark)\.png|\.svg", name)[0] for name in made}
    assert {path.stem for path in PICTURES.glob("*.json")} == names
    assert [name for name in make_pictures.COMMANDS if not said(name)] == []


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in COMPARED])
def test_a_picture_shows_what_its_commands_print_now(name: str, tmp_path: Path) -> None:
    if name == "notebook":
        pytest.importorskip("nbconvert", reason="nbconvert is not installed")
        pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    page = make_pictures.run_commands(name, tmp_path)
    if name in make_pictures.WRITTEN_BY_SCRIPT:
        if not CHROMIUM:
            pytest.skip("no Chromium on this machine")
        with open_page(1280, make_pictures.CUT[name]) as browser:
            browser.go(page.as_uri())
            now = make_pictures.shown(browser, make_pictures.CUT[name])
    elif name == "camera":
        assert said(name) == make_pictures.seen(tmp_path), AGAIN + name
        return
    else:
        now = make_pictures.figures_of_page(page)
    assert [text for text in said(name) if text not in now] == [], AGAIN + name


@pytest.mark.parametrize("name", make_pictures.LIVE)
def test_the_live_page_still_has_the_words_of_its_pictures(name: str) -> None:
    live = ROOT / "edgedla" / "runtime" / "live"
    text = " ".join((live / file).read_text(encoding="utf-8") for file in ("state.py", "templates/live.html.j2"))
    file = make_pictures.LIVE[name]
    pipeline = yaml.safe_load(make_pictures.TWO_CAMERAS if name == "live" else (EXAMPLE / file).read_text(encoding="utf-8"))
    own = {"host", file, *pipeline["sources"], *pipeline["models"], *(stage.capitalize() for stage in STAGES)}
    own |= {f"{source} {event}" for source in pipeline["sources"] for event in pipeline.get("events", ())}
    told = said(name)
    if name == "events":
        assert {"Events", "gate in-or-out", "yard in-or-out", "Undo"} < set(told)
        del told[told.index("events:") :]
    assert [word for word in told if word not in text and word not in own] == [], AGAIN + name


def test_the_zone_in_the_picture_of_events_is_one_that_a_pipeline_takes(tmp_path: Path) -> None:
    told = said("events")
    drawn = "\n".join(told[told.index("events:") :])
    pipeline = yaml.safe_load((EXAMPLE / "objects.yaml").read_text(encoding="utf-8"))
    pipeline["events"] = yaml.safe_load(drawn)["events"]
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    rule = load_config(str(tmp_path / "p.yaml")).events["gate-zone"]
    assert rule.sources == ("gate",)
    assert len(rule.zone) == len(make_pictures.ZONE)
    for corner, clicked in zip(rule.zone, make_pictures.ZONE):
        assert corner == pytest.approx(clicked, abs=0.003)


def test_home_assistant_is_still_told_of_what_its_picture_shows(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(home_assistant.PIPELINE, encoding="utf-8")
    config = load_config(str(tmp_path / "p.yaml"))
    home = HomeAssistant(config.outputs.mqtt, tuple(config.sources), config.events)
    names = {c["name"].capitalize() for c in home.components.values() if c["platform"] != "image"}
    device = json.loads(home.announcement()[0][1])["device"]["name"]
    assert set(said("home-assistant")) == {device, *names, "Detected", "1"}


def test_the_animated_picture_shows_what_its_commands_print_now(tmp_path: Path) -> None:
    kept = json.loads((PICTURES / "first-minutes.json").read_text(encoding="utf-8"))
    assert kept == animation.record(tmp_path), AGAIN + "first-minutes"
    assert (PICTURES / "first-minutes.svg").read_text(encoding="utf-8") == animation.draw(kept)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"takes {kept['after_ms']} ms instead of {kept['gpu_ms']} ms on the GPU alone" in readme
    assert float(kept["after_ms"]) < float(kept["gpu_ms"]) < float(kept["before_ms"]), "the first picture shows a win"


def test_figures_of_a_page_leave_out_names_of_versions_and_scripts(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text("<p>1.0 <b>ms</b><script>var a = 1</script><i>edgedla 0.2.0</i><u>rules 0123456789ab</u><em>7 &lt; 8</em>")
    assert make_pictures.figures_of_page(page) == ["1.0", "7 < 8"]
