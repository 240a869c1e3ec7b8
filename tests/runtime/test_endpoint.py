"""The metrics page under visitors who hold connections, send nothing, or send nonsense."""

from __future__ import annotations

import http.client
import os
import resource
import socket
import threading
import time

import pytest

from edgedla.runtime.health import endpoint


def page(port: int, path: str = "/metrics") -> tuple:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.fixture
def port(monkeypatch):
    monkeypatch.setattr(endpoint.BoundedServer, "total_s", 1.0)
    with endpoint.serve("127.0.0.1", 0, lambda: b"numbers 1\n", "text/plain") as server:
        yield server.server_address[1]


def test_the_metrics_page_is_served_at_its_paths_only(port):
    assert page(port) == (200, b"numbers 1\n")
    assert page(port, "/?x=1") == (200, b"numbers 1\n")
    assert page(port, "/etc/passwd")[0] == 404


def test_held_connections_use_bounded_threads_and_are_ended(port):
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    held = []
    for _ in range(4 * endpoint.MOST_CONNECTIONS):
        held.append(socket.create_connection(("127.0.0.1", port)))
        held[-1].sendall(b"GET ")
    time.sleep(0.5)
    assert threading.active_count() <= threads + endpoint.MOST_CONNECTIONS
    # Our own ends of the connections are descriptors too.
    assert len(os.listdir("/proc/self/fd")) <= files + len(held) + endpoint.MOST_CONNECTIONS
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if page(port)[0] == 200:
                break
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
    else:
        pytest.fail("the page never came back")
    for s in held:
        s.close()


def slow(port, address="127.0.0.1"):
    """A visitor who has begun a request and goes on slowly."""
    s = socket.create_connection(("127.0.0.1", port), source_address=(address, 0))
    s.sendall(b"GET / HTTP/1.0\r\nx: ")
    return s


@pytest.mark.parametrize("visitors", [endpoint.MOST_CONNECTIONS, 3 * endpoint.MOST_CONNECTIONS])
def test_slow_connections_do_not_block_a_scraper(visitors):
    with endpoint.serve("127.0.0.1", 0, lambda: b"numbers 1\n", "text/plain") as server:
        port = server.server_address[1]
        held = [slow(port) for _ in range(visitors)]
        for _ in range(6):
            start = time.monotonic()
            assert page(port) == (200, b"numbers 1\n")
            assert time.monotonic() - start < 2
            held.append(slow(port))
        for s in held:
            s.close()


def test_at_the_limit_the_address_with_most_connections_loses_one():
    with endpoint.serve("127.0.0.1", 0, lambda: b"numbers 1\n", "text/plain") as server:
        port = server.server_address[1]
        first = slow(port, "127.0.0.2")
        held = [slow(port, "127.0.0.3") for _ in range(2 * endpoint.MOST_CONNECTIONS)]
        time.sleep(0.1)
        first.sendall(b"y\r\n\r\n")
        first.settimeout(10)
        assert first.recv(15) == b"HTTP/1.0 200 OK"
        for s in [first, *held]:
            s.close()


@pytest.mark.parametrize(("address", "answered"), [("127.0.0.2", False), ("127.0.0.3", True)])
def test_a_viewers_connection_is_only_ended_for_another_address(address, answered):
    with endpoint.serve("127.0.0.1", 0, lambda: b"numbers 1\n", "text/plain") as server:
        port = server.server_address[1]
        held = [slow(port, "127.0.0.2") for _ in range(endpoint.MOST_CONNECTIONS)]
        end = time.monotonic() + 10
        while len(server._open) < len(held) and time.monotonic() < end:
            time.sleep(0.01)
        for request in list(server._open):
            server.watches(request)
        visitor = slow(port, address)
        visitor.settimeout(10)
        try:
            visitor.sendall(b"y\r\n\r\n")
            answer = visitor.recv(15)
        except ConnectionError:
            answer = b""
        assert answer == (b"HTTP/1.0 200 OK" if answered else b"")
        for s in [visitor, *held]:
            s.close()


def test_a_slowly_sent_request_is_ended(port):
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.settimeout(30)
        s.sendall(b"GET / HTTP/1.0\r\n")
        end = time.monotonic() + 30
        try:
            while time.monotonic() < end:
                s.sendall(b"x")
                time.sleep(0.2)
        except OSError:
            return
    pytest.fail("the connection was still open after 30 s")


@pytest.mark.parametrize("data", [b"\0" * 1000, b"GET\r\n\r\n", b"POST / HTTP/1.0\r\n\r\n", b"A" * 100_000 + b"\r\n"])
def test_invalid_requests_are_answered_or_closed_silently(port, data, capfd):
    with socket.create_connection(("127.0.0.1", port)) as s:
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            s.recv(1000)
        except OSError:
            pass
    assert page(port)[0] == 200
    assert capfd.readouterr().err == ""


def test_a_server_without_descriptors_recovers(port):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiting = socket.socket()
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        waiting.connect(("127.0.0.1", port))
        time.sleep(0.5)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    waiting.close()
    assert page(port)[0] == 200


def test_healthz_says_whether_results_are_fresh() -> None:
    import urllib.error
    import urllib.request

    from edgedla.runtime.health.metrics import health_of

    age = {"last_result_age_s": None}

    def ask(port: int) -> tuple:
        try:
            answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)
        except urllib.error.HTTPError as e:
            answer = e
        # An error has no `status` before Python 3.9.
        return answer.getcode(), answer.read().decode()

    with endpoint.serve("127.0.0.1", 0, lambda: b"", "text/plain", lambda: health_of(lambda: age, 10.0)) as server:
        port = server.server_address[1]
        assert ask(port) == (503, "no result yet\n")
        age["last_result_age_s"] = 10.0
        assert ask(port) == (200, "last result 10.0 s ago, fresh is 10 s\n")
        age["last_result_age_s"] = 10.1
        assert ask(port)[0] == 503
        age.update(last_result_age_s=0.1, models=[{"model": "", "all_non_finite": False, "non_finite": 3}])
        assert ask(port)[0] == 200
        age["models"].append({"model": "b", "all_non_finite": True, "non_finite": 7})
        assert ask(port) == (503, "every result of b holds NaN or infinity, 7 so far\n")


@pytest.mark.parametrize(
    ("yard", "need", "healthy", "line"),
    [
        ({}, "all", True, "yard: fresh, open, last frame 0.1 s ago"),
        ({"last_frame_age_s": 10.1}, "all", False, "yard: STALE, open, last frame 10.1 s ago"),
        ({"last_frame_age_s": 10.1}, "any", True, "yard: STALE"),
        ({"state": "opening", "last_frame_age_s": None, "why": "401"}, "all", False, "STALE, opening, no frame yet: 401"),
        ({"state": "failed", "why": "4 reads"}, "all", False, "yard: STALE, failed, last frame 0.1 s ago: 4 reads"),
        ({"state": "failed", "live": False, "why": "gone"}, "all", False, "yard: STALE, failed"),
        ({"state": "ended", "live": False, "last_frame_age_s": 900.0}, "all", True, "yard: ended"),
        ({"live": False, "last_frame_age_s": 900.0}, "all", True, "yard: open"),
    ],
)
def test_healthz_lists_the_sources_and_one_stale_source_is_enough(yard, need, healthy, line) -> None:
    """The newest result of all sources says nothing about a dead camera beside a good one."""
    from edgedla.runtime.health.metrics import health_of

    good = {"name": "gate", "state": "open", "live": True, "last_frame_age_s": 0.1, "why": ""}
    summary = {"last_result_age_s": 0.1, "sources": [good, {**good, "name": "yard", **yard}]}
    said, text = health_of(lambda: summary, 10.0, need)
    assert (said, line in text) == (healthy, True), text
    assert "gate: fresh" in text


def test_metrics_are_refused_to_a_page_of_another_domain() -> None:
    """A browser reaches this machine under any domain by DNS rebinding."""
    import http.client

    with endpoint.serve("127.0.0.1", 0, lambda: b"numbers 1\n", "text/plain", names=("orin1",)) as server:
        port = server.server_address[1]
        for host, status in (
            ("orin1:9100", 200),
            ("localhost", 200),
            (f"127.0.0.1:{port}", 200),
            ("[::1]", 200),
            ("", 200),
            ("evil.example", 421),
            ("orin1.evil.example", 421),
            ("localhost.evil.example:80", 421),
            ("[", 421),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/metrics", headers={"Host": host})
            assert connection.getresponse().status == status, host
            connection.close()


@pytest.mark.parametrize(("descriptors", "most"), [(40, 5), (4, 1), (1024, 16)])
def test_the_connection_limit_follows_the_descriptor_limit(monkeypatch, descriptors, most):
    monkeypatch.setattr(endpoint, "_descriptors", lambda: descriptors)
    with endpoint.serve("127.0.0.1", 0, lambda: b"numbers 1\n", "text/plain") as server:
        assert server.most == most
