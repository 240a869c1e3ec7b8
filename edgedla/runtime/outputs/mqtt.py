"""Results to an MQTT broker: one message per result, a retained status with a last will, bounded memory during outages."""

from __future__ import annotations

import collections
import logging
import sys
import threading
from typing import Any, Deque, Dict, NamedTuple, Optional, Set, Union

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.hosts import is_this_machine
from edgedla.runtime.outputs.home_assistant import HomeAssistant
from edgedla.runtime.outputs.mqtt_config import PORTS, MqttConfig, broker_parts, check_mqtt, filled, password_of
from edgedla.runtime.outputs.sinks import as_json
from edgedla.runtime.sources.base import RateCap

log = logging.getLogger("edgedla.runtime.outputs.mqtt")

#: Most messages not yet acknowledged or, with QoS 0, not yet written to the connection: the client's own queue is
#: unbounded, and a hanging broker would fill it.
MOST_IN_FLIGHT = 20
#: Longest time that closing waits for queued messages.
FLUSH_S = 3.0


class _Message(NamedTuple):
    topic: str
    payload: Union[str, bytes]
    qos: int
    retain: bool = False


class Mqtt:
    """Publishes results on its own thread, so that a slow or missing broker delays nothing.

    Args:
        home: what Home Assistant is told of the pipeline.

    Raises:
        UsageError: invalid settings. EnvironmentMissing: paho-mqtt is missing.
    """

    def __init__(self, config: MqttConfig, home: Optional[HomeAssistant] = None) -> None:
        check_mqtt(config)
        self._home = home
        #: Whether events come with pictures.
        self.takes_pictures = home is not None
        parts, password = broker_parts(config.url), password_of(config)
        self._config = config
        self._queue: Deque[_Message] = collections.deque()
        #: Sent first.
        self._events: Deque[_Message] = collections.deque()
        self._caps: Dict[str, RateCap] = {}
        self._condition = threading.Condition()
        #: Number of a message -> its QoS.
        self._in_flight: Dict[int, int] = {}
        #: Messages acknowledged before `publish` returned their number.
        self._early: Set[int] = set()
        self._of_status = -1
        self._ending = self._told_away = self._told_lost = False
        self.connected = False
        self.published = self.dropped = self.dropped_events = self.connects = 0
        client = self._client = _client(config.client_id)
        if parts.username:
            client.username_pw_set(parts.username, password)
        if parts.scheme == "mqtts":
            _use_tls(client, config.ca_file)
        elif parts.username and password and not is_this_machine(str(parts.hostname)):
            log.warning(
                "outputs.mqtt.url: mqtt:// sends the password of %s as plain text; mqtts:// encrypts it, where the broker has TLS",
                parts.username,
            )
        client.will_set(config.status_topic, "offline", qos=1, retain=True)
        client.on_connect, client.on_connect_fail = self._on_connect, self._on_connect_fail
        client.on_disconnect, client.on_publish = self._on_disconnect, self._on_publish
        client.on_message = self._on_message
        client.reconnect_delay_set(1, 30)
        self._broker = f"{parts.hostname}:{parts.port or PORTS[parts.scheme]}"
        client.connect_async(str(parts.hostname), parts.port or PORTS[parts.scheme], keepalive=30)
        client.loop_start()
        self._thread = threading.Thread(target=self._send, name="edgedla-mqtt", daemon=True)
        self._thread.start()

    def _on_connect(self, client: Any, userdata: object, flags: object, code: Any, *more: object) -> None:
        refused = code.is_failure if hasattr(code, "is_failure") else code != 0
        if refused:
            log.warning("mqtt %s: the broker refuses: %s", self._broker, code)
            return
        self._of_status = client.publish(self._config.status_topic, "online", qos=1, retain=True).mid
        # Asked for before anything is announced, it is still what a run before this one left.
        earlier = [(self._home.device_topic, 1)] if self._home is not None else []
        client.subscribe([(self._config.status_topic, 1), *earlier])
        with self._condition:
            self._forget_unsent()
            self.announce(self._home)
            again, self._told_lost = self._told_lost, False
            self.connected = self._told_away = True
            self.connects += 1
            kept = self.queued
            self._condition.notify_all()
        if again:
            lost = f"{self.dropped} results and {self.dropped_events} events"
            log.warning("mqtt %s: connected again; %d messages are sent late, %s were dropped so far", self._broker, kept, lost)

    def announce(self, home: Optional[HomeAssistant]) -> None:
        """Tells of its sources and events from now on."""
        with self._condition:
            self._home = home
            for topic, text in home.announcement() if home is not None else ():
                self.publish_event(topic, text, retain=True)

    def give_up(self, home: Optional[HomeAssistant]) -> None:
        """Leaves nothing at the broker that `home`, announced here or by another output, does not tell."""
        with self._condition:
            old, self._home = self._home, None
            for topic, text, retain in old.give_way(home) if old is not None else ():
                self.publish_event(topic, text, retain)

    def _on_message(self, client: Any, userdata: object, message: Any) -> None:
        """A process before this one, or the one that a reload replaced, may say "offline" late, or its last will does. And it may
        have told of sources and events that are gone."""
        if message.topic == self._config.status_topic:
            if message.payload == b"offline" and not self._ending:
                self._of_status = client.publish(self._config.status_topic, "online", qos=1, retain=True).mid
        elif message.retain:
            with self._condition:
                for topic, text, retain in self._home.without_earlier(message.payload) if self._home is not None else ():
                    self.publish_event(topic, text, retain)

    def _on_connect_fail(self, *arguments: object) -> None:
        """Logged once until the broker has answered: attempts continue for the whole run."""
        already_logged, self._told_away = self._told_away, True
        if not already_logged and not self._ending:
            # The client does not pass the reason, but calls this while handling the error.
            error = sys.exc_info()[1]
            self._warn_lost(f"the broker cannot be reached: {getattr(error, 'strerror', None) or error or 'no connection'}")

    def _on_disconnect(self, *arguments: object) -> None:
        with self._condition:
            was, self.connected = self.connected, False
            self._forget_unsent()
        if was and not self._ending:
            self._warn_lost("no connection to the broker")

    def _warn_lost(self, why: str) -> None:
        self._told_lost = True
        log.warning("mqtt %s: %s; keeping the newest %d results for it", self._broker, why, self._config.queue)

    def _forget_unsent(self) -> None:
        """With QoS 0 the client drops unwritten messages when the connection ends, without reporting them."""
        unsent = [number for number, qos in self._in_flight.items() if qos == 0]
        self.dropped += len(unsent)
        self.published -= len(unsent)
        for number in unsent:
            del self._in_flight[number]

    def _on_publish(self, client: object, userdata: object, number: int, *more: object) -> None:
        with self._condition:
            if self._in_flight.pop(number, None) is None and number != self._of_status:
                self._early.add(number)
            self._condition.notify_all()

    def write(self, result: FrameResult) -> None:
        if not self._config.results:
            return
        topic = filled(self._config.topic, result.source, result.model)
        if self._config.max_rate:
            cap = self._caps.setdefault(f"{result.source}/{result.model}", RateCap(self._config.max_rate))
            if cap.skips(result.frame.captured_s):
                return
        self.publish(topic, as_json(result.to_dict()))

    def write_event(self, document: Dict[str, Any]) -> None:
        topic = filled(self._config.topic_of_events, document.get("source", ""), document.get("model", ""))
        self.publish_event(topic, as_json(document))
        for topic, text in self._home.told(document) if self._home is not None else ():
            self.publish_event(topic, text, retain=True)

    def write_snapshot(self, document: Dict[str, Any], jpeg: bytes) -> None:
        topic = self._home.picture_topic(document) if self._home is not None else ""
        if topic:
            self.publish_event(topic, jpeg, retain=True)

    def publish(self, topic: str, text: str) -> None:
        """Queues a result; if the queue is full, drops the oldest."""
        with self._condition:
            if len(self._queue) >= self._config.queue:
                self._queue.popleft()
                self.dropped += 1
            self._queue.append(_Message(topic, text, self._config.qos))
            self._condition.notify_all()

    def publish_event(self, topic: str, payload: Union[str, bytes], retain: bool = False) -> None:
        """Queues a message that no result pushes out. A retained one takes the place of an older one of its topic, and no other's."""
        with self._condition:
            if retain:
                self._events = collections.deque(m for m in self._events if not (m.retain and m.topic == topic))
            elif len(self._events) >= self._config.queue:
                self._events.popleft()
                self.dropped_events += 1
            self._events.append(_Message(topic, payload, 1, retain))
            self._condition.notify_all()

    @property
    def queued(self) -> int:
        return len(self._queue) + len(self._events)

    def _send(self) -> None:
        while True:
            with self._condition:
                while not (self.connected and self.queued and len(self._in_flight) < MOST_IN_FLIGHT):
                    if self._ending and not (self.connected and self.queued):
                        return
                    self._condition.wait(0.5)
                message = (self._events or self._queue).popleft()
            sent = self._client.publish(message.topic, message.payload, qos=message.qos, retain=message.retain)
            with self._condition:
                # 4 is "no connection": with QoS 1 the client keeps the message and sends it when the broker returns.
                if sent.rc != 0 and message.qos == 0:
                    self.dropped += 1
                    continue
                self.published += 1
                if sent.mid in self._early:
                    self._early.discard(sent.mid)
                else:
                    self._in_flight[sent.mid] = message.qos

    def close(self) -> None:
        """Sends queued messages within FLUSH_S, and disconnects."""
        with self._condition:
            self._ending = True
            self._condition.notify_all()
        self._thread.join(FLUSH_S)
        with self._condition:
            self._condition.wait_for(lambda: not self._in_flight or not self.connected, FLUSH_S)
            unsent = self.queued + len(self._in_flight)
        if self.connected:
            self._client.publish(self._config.status_topic, "offline", qos=1, retain=True).wait_for_publish(1.0)
        self._client.disconnect()
        self._client.loop_stop()
        self._early.clear()
        dropped = self.dropped + self.dropped_events
        if unsent or dropped:
            full = (
                f"for {self.dropped} results and {self.dropped_events} events of them the queue of {self._config.queue} was full"
            )
            log.warning("mqtt %s: %d messages were not sent; %s", self._broker, unsent + dropped, full)

    def to_dict(self) -> Dict[str, Any]:
        counts = "connected connects published queued dropped dropped_events".split()
        return {"output": "mqtt", "broker": self._broker, **{name: getattr(self, name) for name in counts}}


def _use_tls(client: Any, ca_file: str) -> None:
    import ssl

    try:
        client.tls_set(ca_certs=ca_file or None)
    except OSError as e:
        reason = "no certificate in PEM form is in it" if isinstance(e, ssl.SSLError) else e.strerror
        raise UsageError(f"outputs.mqtt.ca_file cannot be read: {reason}", where=ca_file) from e


def _client(client_id: str) -> Any:
    try:
        from paho.mqtt import client as library
    except ImportError as e:
        raise EnvironmentMissing(f"paho-mqtt cannot be imported: {e}", hint="pip install paho-mqtt") from e
    # paho-mqtt 2 requires the form of callbacks, 1.6 has only one. Its type hints fit a single release.
    paho: Any = library
    version = [paho.CallbackAPIVersion.VERSION2] if hasattr(paho, "CallbackAPIVersion") else []
    client = paho.Client(*version, client_id=client_id)
    client.max_inflight_messages_set(MOST_IN_FLIGHT)
    return client
