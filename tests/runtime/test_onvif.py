"""ONVIF cameras on the loopback: a real responder answers a real question; hostile answers; what is not there."""

from __future__ import annotations

import contextlib
import json
import sys
import uuid
from ipaddress import ip_address
from pathlib import Path
from typing import Iterator, List, Tuple

import pytest
import yaml
from click.testing import CliRunner

from edgedla.cli.main import main
from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.runtime.sources import onvif, parse_source
from edgedla.runtime.sources.onvif import discovered
from tests.runtime.test_onvif_stream import Speaks, good

if sys.version_info < onvif.MINIMUM_PYTHON:
    pytest.skip("WSDiscovery needs Python 3.9", allow_module_level=True)
wsdiscovery = pytest.importorskip("wsdiscovery")
KIND = ("http://www.onvif.org/ver10/network/wsdl", "NetworkVideoTransmitter")
#: Other runs of this test may answer too.
NAME = f"C {uuid.uuid4().hex[:8]}"


@contextlib.contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, *cameras: Tuple[Tuple[str, str], List[str], List[str]]) -> Iterator[None]:
    """Cameras that answer on the loopback: (kind, addresses, scopes)."""
    from wsdiscovery.publishing import ThreadedWSPublishing
    from wsdiscovery.threaded import ThreadedNetworking

    monkeypatch.setattr(onvif, "WAIT_S", 2.0)
    publishers = []
    for kind, addresses, scopes in cameras:
        publisher = ThreadedWSPublishing()
        # Its thread for IPv6 sends answers to IPv4 addresses, and dies.
        monkeypatch.setattr(publisher, "_networkAddressAdded", lambda address: None)
        publisher.start()
        publisher._networkingThread_v6 = None
        publisher.addSourceAddr(ip_address("127.0.0.1"))
        publishers.append(publisher)
        kinds, places = [wsdiscovery.QName(*kind)], [wsdiscovery.Scope(f"onvif://www.onvif.org/{s}") for s in scopes]
        publisher.publishService(types=kinds, scopes=places, xAddrs=addresses)
    yield
    for publisher in publishers:
        ThreadedNetworking.stop(publisher)


@pytest.fixture
def _responder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A camera, one with an address of another network, one that sends what a terminal obeys, and a printer; all answer on the loopback."""
    name = NAME.replace(" ", "%20")
    with answering(
        monkeypatch,
        (KIND, ["http://[broken", "http://127.0.0.64/onvif/device_service"], [f"name/{name}", "hardware/IPC-7", "location/yard"]),
        (KIND, ["http://198.51.100.7/onvif/device_service"], [f"name/{name}-new"]),
        (KIND, ["http://127.0.0.65/onvif/device_service"], [f"name/{name}%1b%5b2J%0Ax", "hardware/"]),
        (("http://printer", "Printer"), ["http://127.0.0.66/"], [f"name/{name}-printer"]),
    ):
        yield


@pytest.mark.usefixtures("_responder")
def test_a_camera_is_found_where_it_was_asked_for() -> None:
    cameras = [c for c in discovered("127.0.0.0/8") if c.name.startswith(NAME)]
    assert [(c.name, c.address) for c in cameras] == [
        (f"{NAME} IPC-7", "http://127.0.0.64/onvif/device_service"),
        (f"{NAME}\x1b[2J\nx", "http://127.0.0.65/onvif/device_service"),
        # Straight from the maker, a camera often has an address of another network.
        (f"{NAME}-new", "http://198.51.100.7/onvif/device_service"),
    ]
    source = yaml.safe_load(cameras[0].line)
    assert source == {"uri": "rtsp://USER:PASSWORD@127.0.0.64/PATH"}
    assert parse_source(source["uri"]).scheme == "rtsp"


@pytest.mark.usefixtures("_responder")
def test_only_cameras_of_the_network_are_asked_for_streams_with_the_users_account(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: List[Tuple[str, str, str]] = []
    monkeypatch.setattr(onvif, "_with_stream", lambda c, user, password: (asked.append((c.address, user, password)), c)[1])
    monkeypatch.setenv("EDGEDLA_ONVIF_PASSWORD", "of the environment")
    assert len([c for c in discovered("ad%40min:s3cret:%2Fword@lo") if c.name.startswith(NAME)]) == 3
    ours = {each for each in asked if each[0].startswith(("http://127.0.0.64/", "http://127.0.0.65/", "http://198."))}
    assert ours == {(f"http://127.0.0.6{n}/onvif/device_service", "ad@min", "s3cret:/word") for n in (4, 5)}
    discovered("admin@127.0.0.1/8")
    assert asked[-1][1:] == ("admin", "of the environment")


@pytest.mark.usefixtures("_responder")
def test_the_verb_prints_sources_of_a_pipeline_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path))
    done = CliRunner().invoke(main, ["sources", "--onvif", "lo"], standalone_mode=False)
    assert f"  # {NAME} IPC-7: Connection refused; its manual or http://127.0.0.64/ tells PATH and the formats\n" in done.output
    assert "\x1b" not in done.output
    assert "camera0" in yaml.safe_load(done.output)["sources"]
    document = json.loads(
        CliRunner().invoke(main, ["sources", "--onvif", "lo", "--format", "json"], standalone_mode=False).output
    )
    assert f"{NAME} IPC-7" in [source["name"] for source in document["sources"]]


def test_a_line_holds_the_stream_that_the_camera_tells_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path))
    name = f"T{uuid.uuid4().hex[:8]}"
    with Speaks(good(), "s3cret").camera() as camera, answering(monkeypatch, (KIND, [camera.address], [f"name/{name}"])):
        for account, remark in (
            ("admin%3C:s3cret@", "gst-discoverer-1.0 tells"),
            ("", "it asks for a user and password; its manual"),
        ):
            done = CliRunner().invoke(main, ["sources", "--onvif", f"{account}127.0.0.1"], standalone_mode=False)
            line = done.output[done.output.index(f"# {name}: {remark}") :].splitlines()[1]
            assert ("@127.0.0.1:8554/cam/realmonitor?channel=1&subtype=0" in line) == bool(account)
            assert "s3cret" not in done.output


def test_only_a_network_of_this_machine_is_asked() -> None:
    for network in ("203.0.113.0/24", "no-such-interface", "::1", "127.0.0.0/8/8"):
        with pytest.raises(UsageError, match="this machine is not on") as raised:
            discovered(f"admin:s3cret@{network}")
        assert "127.0.0.0/8 (lo)" in str(raised.value)
        assert "s3cret" not in str(raised.value)


def test_nothing_is_sent_to_other_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    from wsdiscovery.threaded import NetworkingThreadIPv4

    monkeypatch.setattr(onvif, "WAIT_S", 0.1)
    joined: List[str] = []
    whole = NetworkingThreadIPv4.addSourceAddr
    monkeypatch.setattr(NetworkingThreadIPv4, "addSourceAddr", lambda self, a: (joined.append(str(a)), whole(self, a))[1])
    discovered("127.0.0.1")
    assert joined == ["127.0.0.1"]


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wsdiscovery", None)
    with pytest.raises(EnvironmentMissing, match=r"(?s)WSDiscovery cannot be imported.*edgedla\[onvif\]"):
        discovered("127.0.0.1")


def test_a_python_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onvif, "MINIMUM_PYTHON", (99, 0))
    with pytest.raises(EnvironmentMissing, match=r"needs Python 99\.0 or newer"):
        discovered("127.0.0.1")
