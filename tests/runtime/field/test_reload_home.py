"""What a reload keeps for MQTT and Home Assistant: the connection, and what goes on; what it removes leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import time

import pytest

from tests.runtime.field.test_reload_parts import Field, source
from tests.runtime.test_mqtt import Reader, broker, folder  # noqa: F401
from tests.runtime.waiting import until

pytest.importorskip("cv2", reason="OpenCV is not installed")
CONFIG, THING = "homeassistant/device/edgedla_site/config", "{classes: [thing], frames: 1}"
KINDS = ("binary_sensor", "sensor", "image")


class Home(Field):
    """A pipeline whose events go to a broker and into lines."""

    def __init__(self, folder, artifact, broker):  # noqa: F811
        super().__init__(folder, artifact)
        self.broker, self.lines = broker, folder / "events.jsonl"

    def write(self, *sources, events="e", outputs="", rules=None, **mqtt):
        url = f"mqtt://127.0.0.1:{self.broker.port}"
        settings = {"url": url, "topic": "site/{source}", "discovery": "homeassistant", "results": False, **mqtt}
        outputs = f"{{mqtt: {json.dumps(settings)}, jsonl: events.jsonl{outputs}}}" if settings["url"] else "{}"
        rules = {**{e: THING for e in events.split()}, **(rules or {})}
        super().write(*map(source, sources), outputs=outputs, events="{" + ", ".join(f"{e}: {r}" for e, r in rules.items()) + "}")

    @contextlib.contextmanager
    def listened(self):
        reader = Reader(self.broker.port)
        try:
            with self.running() as (parts, reloader):
                yield parts, reloader, reader
        finally:
            reader.close()

    def retained(self):
        """What the broker keeps: topic -> text."""
        reader = Reader(self.broker.port)
        time.sleep(0.3)
        reader.close()
        return {topic: text for topic, text, kept in reader.seen if kept}

    def told(self, event="e"):
        """The states of an event, in order."""
        lines = [json.loads(line) for line in self.lines.read_text().splitlines()]
        return [line["state"] for line in lines if line.get("event") == event]


@pytest.fixture
def home(artifact, tmp_path, broker):  # noqa: F811
    return Home(tmp_path, artifact, broker)


def states(reader, pair="gate/e"):
    return reader.texts(f"site/events/{pair}")


def on(reader, *pairs):
    """True once all of them are ON."""
    return until(lambda: all(states(reader, pair)[-1:] == ["ON"] for pair in pairs))


def since_on(reader, pair="gate/e"):
    return set(states(reader, pair)[states(reader, pair).index("ON") :])


def topics(*pairs, base="site"):
    """What is kept of (source/event), besides the device and the status."""
    return {f"{base}/events/{pair}{more}" for pair in pairs for more in ("", "/count", "/picture")}


def test_a_new_source_leaves_the_connection_and_what_goes_on_as_they_are(home):
    home.write("gate")
    with home.listened() as (parts, reloader, reader):
        assert on(reader, "gate/e")
        before = parts.outputs["mqtt"]
        home.write("gate", "yard")
        reloader.reload()
        assert on(reader, "yard/e")
        assert parts.outputs["mqtt"] is before
        assert before.sink.connects == 1
        assert reader.texts("site/status") == ["online"]
        assert since_on(reader) == {"ON"}
        assert home.told() == ["begin", "begin"], "one of each source"
        assert set(json.loads(reader.texts(CONFIG)[-1])["components"]) == {f"{s}_e_{k}" for s in ("gate", "yard") for k in KINDS}


def test_a_removed_source_and_a_removed_event_leave_nothing_behind(home):
    home.write("gate", "yard", events="e f")
    with home.listened() as (_, reloader, reader):
        assert on(reader, "gate/e", "gate/f", "yard/e", "yard/f")
        home.write("gate")
        reloader.reload()
        assert until(lambda: {CONFIG, "site/status", *topics("gate/e")} == set(home.retained()))
        removal, now = (json.loads(text)["components"] for text in reader.texts(CONFIG)[-2:])
        # As documented: first a component without settings, then the device without the component.
        gone = {f"{pair}_{kind}": {"platform": kind} for pair in ("gate_f", "yard_e", "yard_f") for kind in KINDS}
        assert removal == {**now, **gone}
        assert set(now) == {f"gate_e_{kind}" for kind in KINDS}
        assert since_on(reader) == {"ON"}
        assert home.told("f") == ["begin", "begin", "end", "end"]
        assert until(lambda: home.told() == ["begin", "begin", "end"]), "of a removed source it ends by its silence"
        assert {CONFIG, "site/status", *topics("gate/e")} == set(home.retained()), "and comes back to nobody"


def test_a_source_and_an_event_that_come_back_are_known_again(home):
    home.write("gate", "yard", events="e f")
    with home.listened() as (_, reloader, reader):
        assert on(reader, "gate/f", "yard/e")
        for sources, events in ((("gate",), "e"), (("gate", "yard"), "e f")):
            home.write(*sources, events=events)
            reloader.reload()
        assert on(reader, "gate/e", "gate/f", "yard/e", "yard/f")
        assert len(json.loads(home.retained()[CONFIG])["components"]) == 12
        assert since_on(reader) == {"ON"}


def test_other_events_go_on_where_one_is_added_or_changed(home):
    home.write("gate", events="e f", outputs=", events_state: going_on.json")
    with home.listened() as (_, reloader, reader):
        assert on(reader, "gate/e", "gate/f")
        home.write("gate", rules={"f": "{classes: [thing], frames: 2}", "g": THING}, outputs=", events_state: going_on.json")
        reloader.reload()
        assert reloader.outputs == ["events"]
        assert on(reader, "gate/g")
        assert until(lambda: home.told("f") == ["begin", "end", "begin"])
        assert since_on(reader) == {"ON"}
        assert home.told() == home.told("g") == ["begin"]


def test_an_event_of_named_sources_goes_on_where_another_one_is_named(home):
    rule = "{classes: [thing], frames: 1, sources: [%s]}"
    home.write("gate", "yard", "door", events="", rules={"e": rule % "gate, yard"})
    with home.listened() as (_, reloader, reader):
        assert on(reader, "gate/e", "yard/e")
        home.write("gate", "yard", "door", events="", rules={"e": rule % "gate, door"})
        reloader.reload()
        assert on(reader, "gate/e", "door/e")
        assert since_on(reader) == {"ON"}
        assert until(lambda: sorted(home.told()) == ["begin"] * 3 + ["end"]), "of the source that it sees no more"
        assert {CONFIG, "site/status", *topics("gate/e", "door/e")} == set(home.retained())


@pytest.mark.parametrize("before", [{"discovery": ""}, {"url": ""}], ids=["discovery", "broker"])
def test_who_comes_later_is_told_of_what_goes_on_with_pictures_of_what_comes(home, before):
    home.write("gate", outputs=", events_state: going_on.json", **before)
    with home.listened() as (parts, reloader, reader):
        going_on = home.file.parent / "going_on.json"
        assert until(lambda: "outputs" not in before or going_on.exists())
        assert home.comes("gate")
        home.write("gate", events="e f", outputs=", events_state: going_on.json")
        reloader.reload()
        assert on(reader, "gate/e", "gate/f")
        if "discovery" in before:
            assert since_on(reader) == {"ON"}
            assert home.told() == ["begin"]
        assert until(lambda: "site/events/gate/f/picture" in home.retained())


def test_the_last_event_takes_the_device_with_it(home):
    home.write("gate")
    with home.listened() as (_, reloader, reader):
        assert on(reader, "gate/e")
        home.write("gate", events="")
        reloader.reload()
        assert until(lambda: set(home.retained()) == {"site/status"}), home.retained()
        home.write("gate")
        reloader.reload()
        assert until(lambda: CONFIG in home.retained() and states(reader)[-1] == "ON")


def test_what_ends_at_a_reload_was_not_killed(home):
    """Events of the run itself are in its file of those that go on."""
    home.write("gate", outputs=", events_state: going_on.json")
    with home.listened() as (_, reloader, reader):
        assert on(reader, "gate/e")
        home.write("gate", outputs=", events_state: going_on.json, clips: {folder: clips, format: avi}")
        reloader.reload()
        assert until(lambda: home.told()[:3] == ["begin", "end", "begin"])
        assert "killed" not in home.lines.read_text()
        assert until(lambda: len(json.loads((home.file.parent / "going_on.json").read_text())["events"]) == 1)


@pytest.mark.parametrize(
    ("mqtt", "device", "base"),
    [
        ({"qos": 1}, CONFIG, "site"),
        ({"discovery": "ha"}, CONFIG.replace("homeassistant", "ha"), "site"),
        ({"status": "other/status"}, CONFIG.replace("site", "other"), "other"),
        ({"discovery": ""}, None, "site"),
        ({"url": ""}, None, "site"),
    ],
    ids=lambda v: next(iter(v)) + str(next(iter(v.values()))) if isinstance(v, dict) else "",
)
def test_what_other_settings_of_mqtt_do_not_tell_is_taken_from_the_broker(home, mqtt, device, base):
    home.write("gate")
    with home.listened() as (_, reloader, reader):
        assert on(reader, "gate/e")
        home.write("gate", **mqtt)
        reloader.reload()
        there = {device, *topics("gate/e", base=base)} - {"other/events/gate/e/picture"} if device else set()
        assert until(lambda: set(home.retained()) - {"site/status", "other/status"} == there), home.retained()
        if device:
            assert until(lambda: home.retained()[f"{base}/status"] == "online")
            assert home.retained()[f"{base}/events/gate/e"] == "ON"
            assert home.told() == ["begin"]


def test_a_broker_that_is_away_during_reloads_hears_of_them_later(home):
    home.write("gate", "yard")
    with home.listened() as (parts, reloader, reader):
        assert on(reader, "gate/e", "yard/e")
        home.broker.stop()
        assert until(lambda: not parts.outputs["mqtt"].sink.connected)
        for sources in (("gate",), ("gate", "door"), ("door",)):
            home.write(*sources)
            reloader.reload()
        assert home.comes("door")
        home.broker.start()
        assert until(lambda: parts.outputs["mqtt"].sink.connects == 2)
        # This broker keeps nothing while it is away: what is told of the others is that they are gone.
        assert until(lambda: {CONFIG, "site/status", *topics("door/e")} == set(home.retained())), home.retained()
        assert home.retained()["site/events/door/e"] == "ON"


def test_what_a_run_before_told_leaves_too(home):
    home.write("gate", "yard", events="e f")
    with home.listened() as (_, _, reader):
        assert on(reader, "gate/e", "yard/e", "gate/f", "yard/f")
    assert topics("yard/e", "yard/f", "gate/f") <= home.retained().keys()
    home.write("gate")
    with home.listened() as (_, _, reader):
        assert on(reader, "gate/e")
        assert until(lambda: home.retained().keys() == {"site/status", CONFIG, *topics("gate/e")}), home.retained().keys()
        removed = [json.loads(text)["components"] for text in reader.texts(CONFIG) if text and '"yard_e_sensor"' in text][-1]
        assert [removed[f"yard_e_{kind}"] for kind in KINDS] == [{"platform": kind} for kind in KINDS]
        assert set(json.loads(home.retained()[CONFIG])["components"]) == {f"gate_e_{kind}" for kind in KINDS}


@pytest.mark.parametrize(
    "kept",
    [
        "no JSON",
        "[" * 100_000,
        "[1]",
        '{"components": [1]}',
        '{"components": {"a": 1, "b": {"platform": 1}, "c": {"state_topic": "site/events/x/e"}}}',
        '{"components": {"other": {"platform": "sensor", "state_topic": "kitchen/lamp"}}}',
    ],
)
def test_what_others_left_there_is_theirs(home, kept):
    other = Reader(home.broker.port)
    for topic, text in (("kitchen/lamp", "ON"), (CONFIG, kept)):
        other.client.publish(topic, text, qos=1, retain=True).wait_for_publish()
    other.close()
    home.write("gate")
    with home.listened() as (_, _, reader):
        assert on(reader, "gate/e")
        assert home.retained()["kitchen/lamp"] == "ON"
        assert set(json.loads(home.retained()[CONFIG])["components"]) == {f"gate_e_{kind}" for kind in KINDS}
