"""Results, events and frames by ZeroMQ, and by the example's output for Kafka, read by the libraries' own clients."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.decode import Detection
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.own import Own
from edgedla.runtime.outputs.published import Published
from tests.ports import free_port

pytestmark = pytest.mark.once
EXAMPLE = Path(__file__).parents[3] / "examples" / "05_many_cameras"
READER, KAFKA = EXAMPLE / "read_frames.py", EXAMPLE / "kafka_output.py"


def result(number: int = 0, pixels: str = "bgr", source: str = "gate") -> FrameResult:
    # Rows of a camera's frame are padded.
    image = np.zeros((48, 40, 3), np.uint8)[:, :32] if pixels == "bgr" else np.full((72, 40), 128, np.uint8)[:, :32]
    found = (Detection((1.0, 2.0, 9.0, 8.0), 0.5, 0, "person"),)
    return FrameResult(Frame(number, image, 0.0, pixels=pixels), found, "DLA0", True, 1.0, 2.0, source, "objects")


class Subscriber:
    def __init__(self, address: str, *topics: str) -> None:
        zmq = pytest.importorskip("zmq", reason="pyzmq is not installed")
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.rcvtimeo = 5000
        self.socket.connect(address)
        for topic in topics:
            self.socket.subscribe(topic)

    def messages(self, sink: Published, write: Any, count: int) -> List[List[bytes]]:
        """The first so many after the subscription has arrived at the other side."""
        for _ in range(200):
            write()
            if self.socket.poll(50):
                return [self.socket.recv_multipart() for _ in range(count)]
        raise AssertionError("no message arrived")


@pytest.fixture
def address() -> str:
    pytest.importorskip("zmq", reason="pyzmq is not installed")
    return f"tcp://127.0.0.1:{free_port()}"


def test_subscribers_get_the_fields_of_the_lines_by_source_and_model(address: str) -> None:
    sink, subscriber = Published(address), Subscriber(address, "result/gate/", "event/")
    ((topic, text),) = subscriber.messages(sink, lambda: sink.write(result()), 1)
    assert topic == b"result/gate/objects"
    assert json.loads(text) == result().to_dict()
    subscriber.socket.unsubscribe("result/gate/")
    sink.write_event({"event": "seen", "state": "begin", "source": "gate", "model": "objects"})
    while topic.startswith(b"result"):
        topic, text = subscriber.socket.recv_multipart()
    assert (topic, json.loads(text)["state"]) == (b"event/gate/objects", "begin")
    sink.close()


@pytest.mark.parametrize("pixels", ["bgr", "nv12-709"])
def test_frames_come_with_their_result_and_only_to_those_who_ask(address: str, pixels: str) -> None:
    sink, others = Published(address), Subscriber(address, "result/")
    frames = Subscriber(address, "frame/gate")
    ((topic, text, data),) = frames.messages(sink, lambda: sink.write(result(3, pixels)), 1)
    document = json.loads(text)
    assert (topic, document["frame"], document["pixels"]) == (b"frame/gate/objects", 3, pixels)
    image = np.frombuffer(data, np.uint8).reshape(document["shape"])
    np.testing.assert_array_equal(image, result(3, pixels).frame.image)
    frames.socket.unsubscribe("frame/gate")
    deadline = time.monotonic() + 5
    while sink._wanted("frame/gate/objects"):
        assert time.monotonic() < deadline
    assert others.socket.recv_multipart()[0] == b"result/gate/objects"
    sink.close()


def test_a_subscriber_who_does_not_read_delays_nobody_and_costs_bounded_memory(address: str) -> None:
    sink, hung = Published(address), Subscriber(address, "")
    hung.messages(sink, lambda: sink.write(result()), 1)
    large = Frame(0, np.zeros((1080, 1920, 3), np.uint8), 0.0)
    before = Path("/proc/self/statm").read_text().split()[1]
    for _ in range(100):
        sink.write(FrameResult(large, (), "DLA0", True, 1.0, 2.0, "gate", "objects"))
    grown_mb = (int(Path("/proc/self/statm").read_text().split()[1]) - int(before)) * 4096 / 1e6
    # 100 frames are 622 MB; MOST_WAITING of them wait, on either side of the connection at the most.
    assert grown_mb < 450
    hung.socket.close(0)
    sink.close()


def test_the_reader_of_the_example_writes_pictures(address: str, tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    sink = Published(address)
    reader = subprocess.Popen([sys.executable, str(READER), address, "6"], cwd=tmp_path, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while reader.poll() is None:
        assert time.monotonic() < deadline
        sink.write(result(pixels="nv12"))
        time.sleep(0.05)
    sink.close()
    assert reader.communicate()[0].decode().split()[1] == "1"
    assert (tmp_path / "frame-gate-objects.jpg").stat().st_size > 0


def test_an_address_that_cannot_be_served_is_named(address: str) -> None:
    sink = Published(address)
    with pytest.raises(RunError, match=address):
        Published(address)
    sink.close()
    with pytest.raises(RunError, match=r"outputs\.zmq: nonsense"):
        Published("nonsense")


def test_a_public_address_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("zmq", reason="pyzmq is not installed")
    Published(f"tcp://0.0.0.0:{free_port()}").close()
    assert "everybody who reaches" in caplog.text


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of settings by which librdkafka, Kafka's client, serves a broker of its own."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    path = tmp_path / "client.properties"
    path.write_text("# a broker inside the client\ntest.mock.num.brokers = 1\n")
    monkeypatch.setenv("KAFKA_PROPERTIES", str(path))
    return path


def produced(topic: str, made: Any, count: int) -> List[Any]:
    """(key, document) of the first so many messages, read by a client of their own."""
    import confluent_kafka

    (broker,) = made.producer.list_topics(timeout=10).brokers.values()
    settings = {"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": topic, "auto.offset.reset": "earliest"}
    consumer, arrived, until_s = confluent_kafka.Consumer(settings), [], time.monotonic() + 30
    consumer.subscribe([topic])
    while len(arrived) < count and time.monotonic() < until_s:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            arrived.append((message.key(), json.loads(message.value())))
    consumer.close()
    return arrived


@pytest.mark.long
def test_kafka_gets_results_and_events_with_the_source_as_key(kafka: Path) -> None:
    sink = Own(f"{KAFKA}:Kafka")
    made = sink._write.__self__  # type: ignore[attr-defined]
    for n in range(3):
        sink.write(result(n))
    sink.write_event({"event": "seen", "state": "begin", "source": "gate"})
    assert produced("edgedla", made, 3) == [(b"gate", result(n).to_dict()) for n in range(3)]
    assert produced("edgedla-events", made, 1) == [(b"gate", {"event": "seen", "state": "begin", "source": "gate"})]
    sink.close()
    assert (made.sent, made.waiting, made.lost) == (4, 0, 0)


def test_without_kafkas_brokers_results_are_bounded_and_push_out_no_event(
    kafka: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.write_text("")
    monkeypatch.setenv("KAFKA_SERVERS", f"127.0.0.1:{free_port()}")
    sink = Own(f"{KAFKA}:Kafka")
    for n in range(1005):
        sink.write(result(n))
    sink.write_event({"event": "seen", "state": "begin"})
    sink.close()
    assert "1006 messages were not sent" in caplog.text
    made = sink._write.__self__  # type: ignore[attr-defined]
    assert (made.sent, made.waiting, made.lost) == (0, 1001, 5)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zmq", None)
    with pytest.raises(EnvironmentMissing, match="pip install pyzmq"):
        Published("tcp://127.0.0.1:1")
