"""MQTT against a real Mosquitto: results, status and last will, a broker that dies and returns, TLS, bounded memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from edgedla.errors import UsageError
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.mqtt import MOST_IN_FLIGHT, Mqtt
from edgedla.runtime.outputs.mqtt_config import MqttConfig, check_mqtt
from tests.ports import free_port
from tests.runtime.waiting import until

MOSQUITTO = shutil.which("mosquitto") or "/usr/sbin/mosquitto"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"url": "http://broker"}, "not a broker's address"),
        ({"url": "mqtt://"}, "not a broker's address"),
        ({"url": "mqtt://broker:99999"}, "not a broker's address"),
        ({"url": "mqtt://broker/path"}, "not a broker's address"),
        ({"url": "mqtt://user:secret@broker"}, "holds a password"),
        ({"password_file": "/secret"}, "allowed: a user in outputs.mqtt.url: mqtt://USER@broker"),
        ({"ca_file": "/ca.pem"}, "allowed: mqtts://"),
        ({"qos": 2}, "qos is 2"),
        ({"queue": 0}, "queue is 0"),
        ({"topic": "site/+/x"}, "the topic 'site/+/x'"),
        ({"topic": "site/#"}, "the topic"),
        ({"topic": "site/{camera}"}, "the topic"),
        ({"topic": ""}, "the topic ''"),
    ],
)
def test_settings_that_name_no_broker_or_topic_are_refused(changes, says):
    with pytest.raises(UsageError) as e:
        check_mqtt(MqttConfig(**{"url": "mqtt://broker", **changes}))
    assert says in str(e.value)
    assert "secret" not in str(e.value)


@pytest.mark.parametrize(
    ("url", "file", "warned"),
    [
        ("mqtt://cam@broker.invalid", "", True),
        ("mqtt://cam@broker.invalid", "password", True),
        ("mqtt://cam@192.0.2.1", "", True),
        ("mqtts://cam@broker.invalid", "", False),
        ("mqtt://broker.invalid", "", False),
        ("mqtt://cam@127.0.0.1:1", "", False),
        ("mqtt://cam@localhost:1", "", False),
        ("mqtt://cam@[::1]:1", "", False),
    ],
)
def test_a_password_sent_as_plain_text_over_a_network_gives_a_warning(url, file, warned, tmp_path, monkeypatch, caplog):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    (tmp_path / "password").write_text("s3cret-word")
    if not file:
        monkeypatch.setenv("EDGEDLA_MQTT_PASSWORD", "s3cret-word")
    Mqtt(MqttConfig(url=url, password_file=file and str(tmp_path / file))).close()
    said = [r.getMessage() for r in caplog.records if "plain text" in r.getMessage()]
    assert bool(said) == warned
    assert all("mqtts://" in text and "s3cret" not in text for text in said)


def test_a_user_without_a_password_is_not_warned_of_one(monkeypatch, caplog):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    monkeypatch.delenv("EDGEDLA_MQTT_PASSWORD", raising=False)
    Mqtt(MqttConfig(url="mqtt://cam@broker.invalid")).close()
    assert "plain text" not in caplog.text


@pytest.mark.parametrize(("text", "says"), [(None, "No such file"), ("no certificate", "no certificate in PEM form")])
def test_authorities_that_cannot_be_read_are_named(text, says, tmp_path):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as e:
        Mqtt(MqttConfig(url="mqtts://127.0.0.1:1", ca_file=str(path)))
    assert str(path) in str(e.value)
    assert "outputs.mqtt.ca_file cannot be read" in str(e.value)
    assert says in str(e.value)


def test_the_mqtt_status_topic_is_a_sibling_of_the_results():
    assert MqttConfig(topic="site/{source}").status_topic == "site/status"
    assert MqttConfig(topic="{source}/{model}").status_topic == "edgedla/status"
    assert MqttConfig(status="a/b").status_topic == "a/b"


class Broker:
    """A Mosquitto on a port of its own, that can be stopped and started again."""

    def __init__(self, folder, extra=""):
        self.port = free_port()
        folder.chmod(0o755)
        self.config = folder / "mosquitto.conf"
        self.config.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence false\n{extra}")
        # Whatever the umask here: Mosquitto reads it as nobody.
        self.config.chmod(0o644)
        self.process = None

    def start(self):
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            [*as_nobody, MOSQUITTO, "-c", str(self.config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert until(self.answers), "mosquitto does not start"

    def answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)


@pytest.fixture
def folder():
    """One that nobody, whom Mosquitto becomes, may enter: pytest's are their user's alone."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture
def broker(folder):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    if not os.path.exists(MOSQUITTO):
        pytest.skip("mosquitto is not installed")
    made = Broker(folder)
    made.start()
    yield made
    made.stop()


class Reader:
    """Everything that arrives under a topic: (topic, text, retained)."""

    def __init__(self, port, topic="#", **tls):
        from paho.mqtt import client as paho

        self.seen, self.ready = [], threading.Event()
        version = [paho.CallbackAPIVersion.VERSION2] if hasattr(paho, "CallbackAPIVersion") else []
        self.client = paho.Client(*version)
        if tls:
            self.client.tls_set(**tls)
        self.client.on_connect = lambda client, *_: client.subscribe(topic, qos=1)
        self.client.on_subscribe = lambda *_: self.ready.set()
        self.client.on_message = lambda c, u, m: self.seen.append((m.topic, m.payload.decode(errors="replace"), m.retain))
        self.client.reconnect_delay_set(1, 1)
        self.client.connect("127.0.0.1" if not tls else "localhost", port)
        self.client.loop_start()
        assert self.ready.wait(10)

    def texts(self, topic):
        return [text for t, text, _ in self.seen if t == topic]

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


def result(number, source="gate", model="objects"):
    return FrameResult(Frame(number, np.zeros((2, 2, 3), np.uint8), 0.0), (), "DLA0", True, 1.0, 2.0, source, model)


def config(broker, **changes):
    return MqttConfig(**{"url": f"mqtt://127.0.0.1:{broker.port}", "topic": "site/{source}", "qos": 1, **changes})


def test_each_result_is_a_message_with_the_fields_of_the_lines_and_the_status_is_retained(broker):
    reader = Reader(broker.port)
    sink = Mqtt(config(broker))
    for n in range(50):
        sink.write(result(n, "gate" if n % 2 else "yard"))
    assert until(lambda: len(reader.texts("site/gate")) == len(reader.texts("site/yard")) == 25)
    lines = [json.loads(text) for text in reader.texts("site/gate")]
    assert [line["frame"] for line in lines] == list(range(1, 50, 2))
    assert lines[0] == json.loads(json.dumps(result(1).to_dict()))
    late = Reader(broker.port, "site/status")
    assert until(lambda: ("site/status", "online", True) in late.seen)
    sink.close()
    assert until(lambda: late.texts("site/status")[-1] == "offline")
    assert sink.to_dict()["published"] == 50
    for r in (reader, late):
        r.close()


def test_messages_without_acknowledgement_are_not_kept(broker):
    sink = Mqtt(config(broker, qos=0))
    assert until(lambda: sink.connected)
    for n in range(500):
        sink.write(result(n))
    assert until(lambda: sink.published == 500)
    sink.close()
    assert not sink._early
    assert not sink._in_flight


def test_a_hung_broker_keeps_queues_bounded(broker):
    sink = Mqtt(config(broker, qos=0, queue=30))
    assert until(lambda: sink.connected)
    broker.process.send_signal(signal.SIGSTOP)
    try:
        # More than the sockets' buffers hold.
        for _ in range(3000):
            sink.publish("site/gate", "x" * 20_000)
            assert len(sink._client._out_packet) <= MOST_IN_FLIGHT + 5
        assert len(sink._queue) <= 30
    finally:
        broker.process.send_signal(signal.SIGCONT)
    sink.write(result(7))
    assert until(lambda: not sink._queue and not sink._in_flight)
    sink.close()


def test_mqtt_events_use_their_own_topic(broker):
    reader = Reader(broker.port)
    sink, other = Mqtt(config(broker)), Mqtt(config(broker, event_topic="alarm/{model}", status="other"))
    for one in (sink, other):
        one.write_event({"event": "e", "source": "gate", "state": "begin"})
    assert until(lambda: reader.texts("site/gate/event") and reader.texts("alarm/model"))
    assert json.loads(reader.texts("site/gate/event")[0])["state"] == "begin"
    for one in (sink, other, reader):
        one.close()


def test_a_broker_that_dies_and_returns_gets_the_newest_results_and_the_lost_are_counted(broker, caplog):
    sink = Mqtt(config(broker, queue=30))
    sink.write(result(0))
    assert until(lambda: sink.connected and sink.published == 1)
    broker.stop()
    assert until(lambda: not sink.connected)
    started = time.monotonic()
    for n in range(1, 101):
        sink.write(result(n))
    assert time.monotonic() - started < 10, "writing waits for nothing"
    assert len(sink._queue) <= 30
    broker.start()
    reader = Reader(broker.port)
    assert until(lambda: any(json.loads(t)["frame"] == 100 for t in reader.texts("site/gate")))
    frames = [json.loads(t)["frame"] for t in reader.texts("site/gate")]
    assert frames == sorted(frames)
    assert sink.dropped >= 70
    assert sink.connects == 2
    assert "no connection to the broker" in caplog.text
    again = re.findall(r"connected again; (\d+) messages are sent late, (\d+) results and 0 events", caplog.text)
    assert len(again) == 1
    assert int(again[0][0]) <= 30
    assert int(again[0][1]) >= 70
    sink.close()
    reader.close()


def test_a_missing_broker_delays_neither_start_nor_end_and_is_logged_once(caplog):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    started, port = time.monotonic(), free_port()
    sink = Mqtt(MqttConfig(url=f"mqtt://127.0.0.1:{port}", queue=5))
    for n in range(20):
        sink.write(result(n))
    said = f"mqtt 127.0.0.1:{port}: the broker cannot be reached: Connection refused"
    assert until(lambda: said in caplog.text)
    time.sleep(1.5)
    assert caplog.text.count("cannot be reached") == 1
    sink.close()
    assert time.monotonic() - started < 60
    assert (sink.to_dict()["queued"], sink.to_dict()["dropped"]) == (5, 15)


def test_the_last_will_says_offline_when_the_process_is_killed(broker, tmp_path):
    import sys

    code = (
        "import time\nfrom edgedla.runtime.outputs.mqtt import Mqtt\nfrom edgedla.runtime.outputs.mqtt_config import MqttConfig\n"
        f"sink = Mqtt(MqttConfig(url='mqtt://127.0.0.1:{broker.port}', topic='site/x'))\ntime.sleep(60)\n"
    )
    reader = Reader(broker.port, "site/x/status")
    process = subprocess.Popen([sys.executable, "-c", code])
    assert until(lambda: reader.texts("site/x/status") == ["online"])
    process.kill()
    process.wait(10)
    assert until(lambda: reader.texts("site/x/status") == ["online", "offline"])
    reader.close()


def test_tls_and_a_password_from_a_file(folder, caplog):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    passwd = shutil.which("mosquitto_passwd")
    if not os.path.exists(MOSQUITTO) or not passwd or not shutil.which("openssl"):
        pytest.skip("mosquitto or openssl is not installed")
    key, cert, users = folder / "key.pem", folder / "cert.pem", folder / "users"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            str(key),
            "-out",
            str(cert),
        ],
        check=True,
        capture_output=True,
    )
    subprocess.run([passwd, "-b", "-c", str(users), "cam", "s3cret-word"], check=True, capture_output=True)
    for path in (key, cert, users):
        path.chmod(0o644)
    (folder / "password").write_text("s3cret-word\n")
    broker = Broker(folder, f"cafile {cert}\ncertfile {cert}\nkeyfile {key}\npassword_file {users}\n")
    broker.config.write_text(broker.config.read_text().replace("allow_anonymous true", "allow_anonymous false"))
    broker.start()
    try:
        url = f"mqtts://cam@localhost:{broker.port}"
        sink = Mqtt(MqttConfig(url=url, password_file=str(folder / "password"), ca_file=str(cert), qos=1))
        sink.write(result(1))
        assert until(lambda: sink.published == 1)
        assert "s3cret" not in repr(sink.to_dict())
        sink.close()
        (folder / "password").write_text("wrong")
        refused = Mqtt(MqttConfig(url=url, password_file=str(folder / "password"), ca_file=str(cert)))
        refused.write(result(1))
        time.sleep(1.0)
        assert not refused.connected
        refused.close()
        # Without the authority the certificate is nobody's.
        untrusted = Mqtt(MqttConfig(url=url, password_file=str(folder / "password")))
        assert until(lambda: "certificate verify failed" in caplog.text)
        assert not untrusted.connected
        untrusted.close()
    finally:
        broker.stop()


CONNECTED = b"\x20\x02\x00\x00"


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(
    "answers",
    [
        [bytes(range(200, 256))],
        [b"\x20\xff\xff\xff\xff\x7f"],
        [CONNECTED, b"\x40\x02\xff\xff" * 50, b"\x40\x00"],
        [CONNECTED, b"\x30\xff\xff\xff\x7f" + b"x" * 100_000],
        [b"HTTP/1.1 200 OK\r\n\r\n"],
    ],
    ids=["noise", "endless length", "foreign acknowledgements", "a message without end", "another protocol"],
)
def test_a_broker_that_speaks_nonsense_costs_no_result_but_its_own(qos, answers, monkeypatch):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda info: raised.append(info.exc_value))
    server, stop = socket.create_server(("127.0.0.1", 0)), threading.Event()
    server.settimeout(0.1)

    def serve():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                peer, _ = server.accept()
                with peer:
                    peer.settimeout(1)
                    peer.recv(4096)
                    for answer in answers:
                        peer.sendall(answer)
                    stop.wait(0.1)

    thread = threading.Thread(target=serve)
    thread.start()
    output = Mqtt(MqttConfig(url=f"mqtt://127.0.0.1:{server.getsockname()[1]}", topic="a/b", qos=qos))
    for n in range(20):
        output.publish("a/b", str(n))
    time.sleep(0.2)
    output.close()
    told = output.to_dict()
    stop.set()
    thread.join()
    server.close()
    assert raised == []
    assert told["published"] + told["queued"] + told["dropped"] <= 20 + told["connects"]
    assert told["queued"] <= 20


def test_results_push_no_event_out_of_the_queue_and_events_go_first():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        sink = Mqtt(MqttConfig(url=f"mqtt://127.0.0.1:{nobody.getsockname()[1]}", topic="site/{source}", qos=1, queue=50))
        sink.write_event({"event": "intruder", "source": "gate", "state": "begin"})
        for n in range(1000):
            sink.write(result(n))
        told = sink.to_dict()
        assert (told["queued"], told["dropped"], told["dropped_events"]) == (51, 950, 0)
        assert ["intruder" in m.payload for m in sink._events] == [True]
        for _ in range(60):
            sink.write_event({"event": "e", "source": "gate", "state": "begin"})
        assert sink.to_dict()["dropped_events"] == 11, "bounded all the same"
        sink.close()


def test_events_alone_and_at_most_so_many_results(broker):
    reader = Reader(broker.port)
    quiet = Mqtt(config(broker, results=False))
    slow = Mqtt(config(broker, topic="slow/{source}", max_rate=2.0))
    assert until(lambda: quiet.connected and slow.connected)
    for n in range(50):
        for sink in (quiet, slow):
            sink.write(result(n))
    for sink in (quiet, slow):
        sink.write_event({"event": "e", "source": "gate", "state": "begin"})
        sink.close()
    assert until(lambda: reader.texts("slow/gate/event"))
    assert len(reader.texts("site/gate/event")) == 1
    assert reader.texts("site/gate") == []
    # result() captures 50 frames in one moment or at 0.1 s each: far fewer than 50 pass.
    assert 1 <= len(reader.texts("slow/gate")) <= 12
