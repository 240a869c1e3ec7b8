"""Home Assistant's discovery by a real Mosquitto: device, retained states, pictures, availability; its documented schema."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List

import numpy as np
import pytest

from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.event_rule import EventRule
from edgedla.runtime.outputs.events import Events
from edgedla.runtime.outputs.guarded import Guarded
from edgedla.runtime.outputs.home_assistant import HomeAssistant
from edgedla.runtime.outputs.mqtt import Mqtt
from edgedla.runtime.outputs.mqtt_config import MqttConfig
from tests.runtime.test_mqtt import Broker, broker, folder  # noqa: F401
from tests.runtime.waiting import until

RULES = {"visitor": EventRule(each="object", frames=1, end_s=0.5), "busy": EventRule(frames=1, end_s=0.5, sources=("gate",))}
#: https://www.home-assistant.io/integrations/mqtt/#device-discovery-payload, and the pages on binary_sensor, sensor, image.
TEXT = {"type": "string", "minLength": 1}
TOPIC = {"type": "string", "pattern": r"^[^+#]+$"}


def component(platform: str, required: Dict[str, Any], **more: Any) -> Dict[str, Any]:
    properties = {"platform": {"const": platform}, "unique_id": TEXT, "name": TEXT, **required, **more}
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": ["platform", "unique_id", *required],
    }


SCHEMA = {
    "type": "object",
    "required": ["device", "origin", "components"],
    "additionalProperties": False,
    "properties": {
        "device": {
            "type": "object",
            "required": ["identifiers"],
            "properties": {"identifiers": {"type": "array", "items": TEXT}},
        },
        "origin": {"type": "object", "required": ["name"], "properties": {"name": TEXT}},
        "availability_topic": TOPIC,
        "components": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "oneOf": [
                    component("binary_sensor", {"state_topic": TOPIC}, device_class={"enum": ["occupancy", "motion"]}),
                    component("sensor", {"state_topic": TOPIC}, state_class={"enum": ["measurement", "total"]}),
                    component("image", {"image_topic": TOPIC}, content_type={"enum": ["image/jpeg", "image/png"]}),
                ]
            },
        },
    },
}


def config(port: int = 1) -> MqttConfig:
    return MqttConfig(url=f"mqtt://127.0.0.1:{port}", topic="site/{source}", results=False, discovery="homeassistant")


def result(index: int, *objects: Any) -> FrameResult:
    frame = Frame(index, np.full((60, 80, 3), 90, np.uint8), 1 + index * 0.1, None, 1_700_000_000 + index * 0.1)
    return FrameResult(frame, objects, "DLA0", True, 1.0, 2.0, "gate", "objects")


def person(track: int) -> Detection:
    return Detection((10.0, 10.0, 30.0, 50.0), 0.9, 0, "person", track)


def test_the_device_conforms_to_the_documented_form_and_names_every_event_and_source() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    (topic, text), *states = HomeAssistant(config(), ("gate", "yard"), RULES).announcement()
    device = json.loads(text)
    jsonschema.validate(device, SCHEMA)
    assert topic == "homeassistant/device/edgedla_site/config"
    assert {key.rpartition("_")[0].replace("_binary", "") for key in device["components"]} == {
        "gate_visitor",
        "yard_visitor",
        "gate_busy",
    }
    ids = [c["unique_id"] for c in device["components"].values()]
    assert len(set(ids)) == len(ids) == 9
    told = {c.get("state_topic") for c in device["components"].values()} - {None}
    assert dict(states) == {t: "0" if t.endswith("/count") else "OFF" for t in told}, "no state is unknown"


def test_states_are_retained_and_follow_the_events(broker: Broker) -> None:  # noqa: F811
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    settings = config(broker.port)
    sink = Mqtt(settings, HomeAssistant(settings, ("gate",), RULES))
    events = Events(RULES, [Guarded("mqtt", sink, lambda: sink)])  # type: ignore[list-item]
    assert until(lambda: sink.connected)
    for i in range(4):
        events.write(result(i, person(1), person(2)))
    assert until(lambda: not sink.queued and not sink._in_flight)
    # As Home Assistant after a restart: only what is retained comes.
    first = Seen(broker.port)
    assert until(lambda: "site/events/gate/visitor/picture" in first.retained)
    assert first.retained["site/status"] == b"online"
    assert first.retained["site/events/gate/visitor"] == b"ON"
    assert first.retained["site/events/gate/visitor/count"] == b"2"
    assert first.retained["site/events/gate/busy"] == b"ON"
    for picture in ("visitor", "busy"):
        assert first.retained[f"site/events/gate/{picture}/picture"][:2] == b"\xff\xd8"
    assert "homeassistant/device/edgedla_site/config" in first.retained
    for i in range(4, 20):
        events.write(result(i, person(2)))
    assert until(lambda: not sink.queued and not sink._in_flight)
    second = Seen(broker.port)
    assert until(lambda: second.retained.get("site/events/gate/visitor/count") == b"1")
    events.close()
    sink.close()
    third = Seen(broker.port)
    assert until(lambda: third.retained.get("site/status") == b"offline")
    assert third.retained["site/events/gate/visitor"] == b"OFF"
    assert third.retained["site/events/gate/busy/count"] == b"0"
    for seen in (first, second, third):
        seen.client.disconnect()
        seen.client.loop_stop()


class Seen:
    """The retained messages of a broker, as bytes."""

    def __init__(self, port: int) -> None:
        from paho.mqtt import client as paho

        self.retained: Dict[str, bytes] = {}
        version = [paho.CallbackAPIVersion.VERSION2] if hasattr(paho, "CallbackAPIVersion") else []
        self.client = paho.Client(*version)
        self.client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
        self.client.on_message = lambda c, u, m: self.retained.__setitem__(m.topic, m.payload) if m.retain else None
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()


def test_a_broker_that_forgot_is_told_again(broker: Broker) -> None:  # noqa: F811
    settings = config(broker.port)
    sink = Mqtt(settings, HomeAssistant(settings, ("gate",), RULES))
    assert until(lambda: sink.connected and not sink.queued)
    broker.stop()
    assert until(lambda: not sink.connected)
    broker.start()
    assert until(lambda: sink.connects == 2 and not sink.queued and not sink._in_flight)
    seen = Seen(broker.port)
    assert until(lambda: "homeassistant/device/edgedla_site/config" in seen.retained, 40)
    sink.close()
    seen.client.disconnect()
    seen.client.loop_stop()


def test_who_says_offline_late_is_answered(broker: Broker) -> None:  # noqa: F811
    """One that a reload replaced, and the last will of one that was killed: Home Assistant would show nothing from then on."""
    settings, seen, killed = config(broker.port), Statuses(broker.port), client()
    killed.will_set("site/status", "offline", qos=1, retain=True)
    killed.connect("127.0.0.1", broker.port)
    killed.loop_start()
    ended, now = (Mqtt(settings, HomeAssistant(settings, ("gate",), RULES)) for _ in range(2))
    assert until(lambda: ended.connected and now.connected and killed.is_connected() and seen.told[-1:] == [b"online"])
    ended.close()
    assert until(lambda: seen.told.count(b"offline") == 1 and seen.told[-1] == b"online")
    # Without a word: the broker tells its will.
    killed.loop_stop()
    killed.socket().close()
    assert until(lambda: seen.told.count(b"offline") == 2 and seen.told[-1] == b"online")
    now.close()
    assert until(lambda: seen.told.count(b"offline") == 3)
    assert seen.told[-1] == b"offline"
    seen.client.disconnect()
    seen.client.loop_stop()


def test_states_push_nothing_out_of_the_queue_however_many_there_are() -> None:
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    settings = dataclasses.replace(config(), queue=2)
    home = HomeAssistant(settings, ("gate", "yard"), RULES)
    sink = Mqtt(settings, home)
    for _ in range(3):
        sink.write_event({"event": "visitor", "source": "gate", "state": "clip", "id": "x"})
    for _ in range(2):
        sink.announce(home)
    assert [m.topic for m in sink._events if m.retain] == [topic for topic, _ in home.announcement()]
    assert sink.dropped_events == 1
    sink.close()


def client() -> Any:
    from paho.mqtt import client as library

    paho: Any = library
    return paho.Client(*([paho.CallbackAPIVersion.VERSION2] if hasattr(paho, "CallbackAPIVersion") else []))


class Statuses:
    """What is said of the status, in order."""

    def __init__(self, port: int) -> None:
        self.told: List[bytes] = []
        self.client = client()
        self.client.on_connect = lambda client, *_: client.subscribe("site/status", qos=1)
        self.client.on_message = lambda c, u, m: self.told.append(m.payload)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
