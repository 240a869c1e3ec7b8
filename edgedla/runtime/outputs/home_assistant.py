"""What Home Assistant is told by MQTT: a device with the pipeline's events, how many objects each has, and their last pictures.

Format: https://www.home-assistant.io/integrations/mqtt/#device-discovery-payload. Every state is retained, so that it is
known after Home Assistant restarts; the status topic says whether the pipeline is there.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Set, Tuple

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
        self._pairs = [
            (name, source or ONLY)
            for name, rule in rules.items()
            for source in sources
            if not rule.sources or source in rule.sources
        ]
        #: (event, source) -> ids of those that go on.
        self._open: Dict[Tuple[str, str], Set[str]] = {pair: set() for pair in self._pairs}

    def announcement(self) -> List[Tuple[str, str]]:
        """(topic, payload) of the device and of every state, all retained: again at each connection, as brokers forget."""
        components: Dict[str, Any] = {}
        for name, source in self._pairs:
            key, topic, title = f"{source}_{name}", self._topic(name, source), f"{source} {name}"
            kinds: Dict[str, Dict[str, Any]] = {
                "binary_sensor": {"device_class": "occupancy", "state_topic": topic, "name": title},
                "sensor": {"state_topic": f"{topic}/count", "name": f"{title} count", "state_class": "measurement"},
                "image": {"image_topic": f"{topic}/picture", "content_type": "image/jpeg", "name": f"{title} picture"},
            }
            for kind, more in kinds.items():
                components[f"{key}_{kind}"] = {"platform": kind, "unique_id": f"{self._id}_{key}_{kind}", **more}
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
        states = [state for pair in self._pairs for state in self._states(*pair)]
        return [(f"{self._config.discovery}/device/{self._id}/config", as_json(device)), *states]

    def told(self, document: Mapping[str, Any]) -> List[Tuple[str, str]]:
        """The states that an event changes."""
        pair = document["event"], document.get("source", ONLY)
        state, open_ids = document["state"], self._open.get(pair)
        if open_ids is None or state not in ("begin", "new", "end"):
            return []
        (open_ids.discard if state == "end" else open_ids.add)(document["id"])
        return list(self._states(*pair))

    def _states(self, name: str, source: str) -> Iterator[Tuple[str, str]]:
        count = len(self._open[name, source])
        yield self._topic(name, source), "ON" if count else "OFF"
        yield f"{self._topic(name, source)}/count", str(count)

    def _topic(self, name: str, source: str) -> str:
        return f"{self._base}/events/{source}/{name}"

    def picture_topic(self, document: Mapping[str, Any]) -> str:
        return f"{self._topic(document['event'], document.get('source', ONLY))}/picture"
