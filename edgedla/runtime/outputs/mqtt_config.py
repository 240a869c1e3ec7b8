"""Settings of the MQTT output: broker, topics, queue."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional
from urllib.parse import SplitResult, urlsplit

from edgedla.errors import UsageError

PORTS = {"mqtt": 1883, "mqtts": 8883}
PASSWORD_VARIABLE = "EDGEDLA_MQTT_PASSWORD"
#: Replaces {source} in a pipeline with a single source.
ONLY = "camera"


@dataclass(frozen=True)
class MqttConfig:
    """A broker; "" for none.

    Attributes:
        url: mqtt://[user@]host[:port], or mqtts:// for TLS. The password is in `password_file`, or in the variable
            EDGEDLA_MQTT_PASSWORD; without TLS it is sent as plain text, which a warning says.
        topic: for results; {source} and {model} are replaced.
        status: topic of the retained "online" and "offline"; "": the first part of `topic`, with /status.
        results: false sends events alone. max_rate: most results per second of each source and model; 0: all.
        event_topic: for events; "": `topic` with /event.
        qos: of results, 0 or 1; events always have 1. queue: results kept while the broker is away, and events beside them; when
            full, the oldest is dropped and counted. No result takes an event's place.
        discovery: Home Assistant's prefix, "homeassistant": it finds the events, their pictures and counts by itself; "": not.
        ca_file: trusted authorities instead of the system's. client_id: "" for a generated one.
    """

    url: str = ""
    topic: str = "edgedla/{source}"
    results: bool = True
    max_rate: float = 0.0
    status: str = ""
    event_topic: str = ""
    qos: int = 0
    queue: int = 1000
    discovery: str = ""
    password_file: str = ""
    ca_file: str = ""
    client_id: str = ""

    @property
    def status_topic(self) -> str:
        return self.status or f"{self.topic.partition('{')[0].rstrip('/') or 'edgedla'}/status"

    @property
    def topic_of_events(self) -> str:
        return self.event_topic or f"{self.topic.rstrip('/')}/event"


def check_mqtt(config: MqttConfig) -> None:
    """Raises UsageError if the settings name no broker or topic. Needs no library."""
    parts = broker_parts(config.url)
    if parts.password is not None:
        raise UsageError(
            "the address outputs.mqtt.url holds a password", allowed=f"outputs.mqtt.password_file, or {PASSWORD_VARIABLE}"
        )
    if config.password_file and not parts.username:
        raise UsageError(
            "outputs.mqtt.password_file is set, but outputs.mqtt.url names no user",
            allowed=f"a user in outputs.mqtt.url: {parts.scheme}://USER@{parts.hostname}",
        )
    if config.ca_file and parts.scheme == "mqtt":
        raise UsageError(f"outputs.mqtt.ca_file is for TLS, and outputs.mqtt.url is {config.url}", allowed="mqtts://...")
    if config.qos not in (0, 1):
        raise UsageError(f"outputs.mqtt.qos is {config.qos}", allowed="0, 1")
    if config.queue < 1:
        raise UsageError(f"outputs.mqtt.queue is {config.queue}", allowed="1 or more")
    for topic in (config.topic, config.status_topic, config.topic_of_events, *([config.discovery] if config.discovery else [])):
        plain = topic.replace("{source}", "").replace("{model}", "")
        if not topic or any(c in plain for c in "+#{}\0") or len(topic.encode()) > 1024:
            raise UsageError(f"the topic {topic!r}", allowed="text without + and #, with {source} and {model}")


def broker_parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        good = parts.scheme in PORTS and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or parts.path.strip("/") or parts.query:
        raise UsageError("outputs.mqtt.url is not a broker's address", allowed="mqtt://[user@]host[:port], mqtts://...")
    return parts


def password_of(config: MqttConfig) -> Optional[str]:
    if not config.password_file:
        return os.environ.get(PASSWORD_VARIABLE)
    try:
        with open(config.password_file, encoding="utf-8") as f:
            return f.read().strip()
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"the password cannot be read: {getattr(e, 'strerror', None) or e}", where=config.password_file) from e


def filled(topic: str, source: str, model: str) -> str:
    return topic.replace("{source}", source or ONLY).replace("{model}", model or "model")
