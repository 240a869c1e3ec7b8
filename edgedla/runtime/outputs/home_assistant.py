"""What Home Assistant is told by MQTT: a device with the pipeline's events, how many objects each has, and their last pictures.

Format: https://www.home-assistant.io/integrations/mqtt/#device-discovery-payload. Every state is retained, so that it is
known after Home Assistant restarts; the status topic says whether the pipeline is there.
"""

from __future__ import annotations

import collections
import contextlib
import json
import re
from typing import Any, DefaultDict, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from edgedla.runtime.outputs.event_rule import EventRule
from edgedla.runtime.outputs.mqtt_config import ONLY, MqttConfig
from edgedla.runtime.outputs.sinks import as_json
from edgedla.version import version

#: Home Assistant takes these in identifiers.
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9_-]+")


class HomeAssistant:
    """For each event and each source that it watches: a binary sensor, a counter, and a picture.

    Args:
        sources: names. rules: events by name.
    """

    def __init__(self, config: MqttConfig, sources: Sequence[str], rules: Mapping[str, EventRule]) -> None:
        self._config = config
        self._base = config.status_topic.rpartition("/")[0] or config.status_topic
        self._id = _NOT_IN_AN_ID.sub("_", f"edgedla_{self._base}")
        self.device_topic = f"{config.discovery}/device/{self._id}/config"
        self._pairs = [
            (name, source or ONLY)
            for name, rule in rules.items()
            for source in sources
            if not rule.sources or source in rule.sources
        ]
        #: (event, source) -> ids of those that go on.
        self.going_on: DefaultDict[Tuple[str, str], Set[str]] = collections.defaultdict(set)
        self.components: Dict[str, Dict[str, Any]] = {}
        for name, source in self._pairs:
            key, topic, title = f"{source}_{name}", self._topic(name, source), f"{source} {name}"
            kinds: Dict[str, Dict[str, Any]] = {
                "binary_sensor": {"device_class": "occupancy", "state_topic": topic, "name": title},
                "sensor": {"state_topic": f"{topic}/count", "name": f"{title} count", "state_class": "measurement"},
                "image": {"image_topic": f"{topic}/picture", "content_type": "image/jpeg", "name": f"{title} picture"},
            }
            for kind, more in kinds.items():
                self.components[f"{key}_{kind}"] = {"platform": kind, "unique_id": f"{self._id}_{key}_{kind}", **more}
        self.topics = _topics(self.components)

    def announcement(self) -> List[Tuple[str, str]]:
        """(topic, payload) of the device and of every state, all retained: again at each connection, as brokers forget."""
        states = [state for pair in self._pairs for state in self._states(*pair)]
        return [(self.device_topic, self._device(self.components)), *states]

    def give_way(self, now: Optional[HomeAssistant]) -> List[Tuple[str, str, bool]]:
        """(topic, payload, retained) that remove what the one that takes its place does not tell."""
        if now is not None and now.device_topic == self.device_topic:
            return now.without(self.components)
        kept = set(now.topics.values()) if now is not None else set()
        return [(self.device_topic, "", True), *((topic, "", True) for topic in self.topics.values() if topic not in kept)]

    def without_earlier(self, payload: bytes) -> List[Tuple[str, str, bool]]:
        """The same for what the broker kept of a run before this one, the payload of its device: the file may have had others."""
        with contextlib.suppress(ValueError, RecursionError):
            before = json.loads(payload)
            components = before.get("components") if isinstance(before, dict) else None
            if isinstance(components, dict):
                return self.without({key: c for key, c in components.items() if isinstance(c, dict) and "platform" in c})
        return []

    def without(self, before: Mapping[str, Mapping[str, Any]]) -> List[Tuple[str, str, bool]]:
        """The same for the components of an earlier announcement. A topic that is not of its events stays as it is."""
        own, kept = f"{self._base}/events/", set(self.topics.values())
        gone = {key: topic for key, topic in _topics(before).items() if topic.startswith(own) and topic not in kept}
        # Home Assistant keeps a component that it is not told of, and removes one that has no settings.
        bare = {key: {"platform": before[key]["platform"]} for key in gone}
        device = (self.device_topic, self._device({**self.components, **bare}), False)
        return [device, *((topic, "", True) for topic in gone.values())] if gone else []

    def _device(self, components: Mapping[str, Any]) -> str:
        device = {
            "device": {
                "identifiers": [self._id],
                "name": f"edgedla {self._base}",
                "manufacturer": "edgedla",
                "sw_version": version(),
            },
            "origin": {"name": "edgedla", "sw_version": version()},
            "availability_topic": self._config.status_topic,
            "components": components,
        }
        return as_json(device) if components else ""

    def told(self, document: Mapping[str, Any]) -> List[Tuple[str, str]]:
        """The states that an event changes."""
        pair, state = (document["event"], document.get("source", ONLY)), document["state"]
        if state not in ("begin", "new", "end"):
            return []
        (self.going_on[pair].discard if state == "end" else self.going_on[pair].add)(document["id"])
        return list(self._states(*pair)) if pair in self._pairs else []

    def _states(self, name: str, source: str) -> Iterator[Tuple[str, str]]:
        count = len(self.going_on[name, source])
        yield self._topic(name, source), "ON" if count else "OFF"
        yield f"{self._topic(name, source)}/count", str(count)

    def _topic(self, name: str, source: str) -> str:
        return f"{self._base}/events/{source}/{name}"

    def picture_topic(self, document: Mapping[str, Any]) -> str:
        """ "" where the source of an event that goes on was removed."""
        pair = document["event"], document.get("source", ONLY)
        return f"{self._topic(*pair)}/picture" if pair in self._pairs else ""


def _topics(components: Mapping[str, Mapping[str, Any]]) -> Dict[str, str]:
    """Where each component's state, or its picture, is told."""
    return {key: str(c.get("state_topic") or c.get("image_topic")) for key, c in components.items()}
