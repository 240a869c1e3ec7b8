"""The stream of an ONVIF camera, asked of a server that speaks as the ONVIF specifications say; hostile answers."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import re
import socket
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple, Union
from urllib.parse import urlsplit

import pytest
import yaml

from edgedla.runtime.sources import onvif, parse_source
from edgedla.runtime.sources.cameras import Camera
from edgedla.runtime.sources.onvif import _with_stream
from tests.runtime.http_served import served

#: Namespaces and elements of ONVIF's device.wsdl, media.wsdl and onvif.xsd.
ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?><SOAP-ENV:Envelope xmlns:SOAP-ENV="http://www.w3.org/2003/05/soap-envelope" '
    'xmlns:tds="http://www.onvif.org/ver10/device/wsdl" xmlns:trt="http://www.onvif.org/ver10/media/wsdl" '
    'xmlns:tt="http://www.onvif.org/ver10/schema" xmlns:ter="http://www.onvif.org/ver10/error"><SOAP-ENV:Body>%s'
    "</SOAP-ENV:Body></SOAP-ENV:Envelope>"
)
CLOCK = (
    "<tds:GetSystemDateAndTimeResponse><tds:SystemDateAndTime><tt:DateTimeType>Manual</tt:DateTimeType>"
    "<tt:DaylightSavings>false</tt:DaylightSavings><tt:TimeZone><tt:TZ>CST-8</tt:TZ></tt:TimeZone><tt:UTCDateTime>\n<tt:Time><tt:Hour>3"
    "</tt:Hour><tt:Minute>4</tt:Minute><tt:Second>5</tt:Second></tt:Time><tt:Date><tt:Year>1970</tt:Year><tt:Month>1</tt:Month>"
    "<tt:Day>2</tt:Day></tt:Date></tt:UTCDateTime><tt:LocalDateTime><tt:Time><tt:Hour>11</tt:Hour></tt:Time></tt:LocalDateTime>"
    "</tds:SystemDateAndTime></tds:GetSystemDateAndTimeResponse>"
)
SERVICES = (
    "<tds:GetCapabilitiesResponse><tds:Capabilities><tt:Media><tt:XAddr>http://192.0.2.9:8899/onvif/Media</tt:XAddr>"
    "<tt:StreamingCapabilities><tt:RTPMulticast>false</tt:RTPMulticast></tt:StreamingCapabilities></tt:Media></tds:Capabilities>"
    "</tds:GetCapabilitiesResponse>"
)
PROFILES = (
    '<trt:GetProfilesResponse><trt:Profiles token="Main &amp; &lt;1&gt;" fixed="true"><tt:Name>main</tt:Name></trt:Profiles>'
    '<trt:Profiles token="sub"><tt:Name>sub</tt:Name></trt:Profiles></trt:GetProfilesResponse>'
)
STREAM = (
    "<trt:GetStreamUriResponse><trt:MediaUri><tt:Uri>%s</tt:Uri><tt:InvalidAfterConnect>false</tt:InvalidAfterConnect>"
    "<tt:InvalidAfterReboot>false</tt:InvalidAfterReboot><tt:Timeout>PT0S</tt:Timeout></trt:MediaUri></trt:GetStreamUriResponse>"
)
FAULT = (
    "<SOAP-ENV:Fault><SOAP-ENV:Code><SOAP-ENV:Value>SOAP-ENV:Sender</SOAP-ENV:Value><SOAP-ENV:Subcode><SOAP-ENV:Value>"
    "ter:NotAuthorized</SOAP-ENV:Value></SOAP-ENV:Subcode></SOAP-ENV:Code><SOAP-ENV:Reason><SOAP-ENV:Text>Sender not Authorized"
    "</SOAP-ENV:Text></SOAP-ENV:Reason></SOAP-ENV:Fault>"
)
URI = "rtsp://admin:factory@192.0.2.9:8554/cam/realmonitor?channel=1&amp;subtype=0"
REMARK = "its manual or http://camera/ tells PATH"
Answer = Union[str, Tuple[int, bytes]]


class Speaks:
    """A camera; `asked` has (path, message, text) of each request."""

    def __init__(self, answers: Dict[str, Answer], password: str = "") -> None:
        self.answers, self.password = {"GetSystemDateAndTime": CLOCK, **answers}, password
        self.asked: List[Tuple[str, str, str]] = []

    def answer(self, path: str, kind: str, text: str) -> Tuple[int, bytes]:
        name = re.search(r"<s:Body><(\w+) xmlns=", text)[1]  # type: ignore[index]
        assert kind.startswith("application/soap+xml; ")
        assert kind.endswith(f'/wsdl/{name}"')
        self.asked.append((path, name, text))
        if self.password and name != "GetSystemDateAndTime" and not self.knows(text):
            return 400, (ENVELOPE % FAULT).encode()
        given = self.answers[name]
        return (200, (ENVELOPE % given).encode()) if isinstance(given, str) else given

    def knows(self, text: str) -> bool:
        """Whether the token is of the user's password and the camera's time."""
        token = dict(re.findall(r"<(Username|Password|Nonce|Created)[^>]*>([^<]*)(?=<)", text))
        if not token:
            return False
        assert token["Created"] == "1970-01-02T03:04:05Z"
        digest = hashlib.sha1(base64.b64decode(token["Nonce"]) + (token["Created"] + self.password).encode()).digest()
        return token["Username"] == "admin&lt;" and base64.b64decode(token["Password"]) == digest

    @contextlib.contextmanager
    def camera(self) -> Iterator[Camera]:
        speaks = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, data = speaks.answer(self.path, self.headers["Content-Type"], text)
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        with served(Handler) as url:
            yield Camera("c", f"{url}/onvif/device_service", {"uri": "rtsp://USER:PASSWORD@127.0.0.1/PATH"}, remark=REMARK)


def good(uri: str = URI, **more: Answer) -> Dict[str, Answer]:
    return {"GetCapabilities": SERVICES, "GetProfiles": PROFILES, "GetStreamUri": STREAM % uri, **more}


def test_a_camera_tells_the_stream_of_its_first_profile() -> None:
    speaks = Speaks(good())
    with speaks.camera() as camera:
        told = _with_stream(camera, "", "")
    # Where it was found; what it believes to be, and a password that it tells, are left out.
    assert told.source == {"uri": "rtsp://USER:PASSWORD@127.0.0.1:8554/cam/realmonitor?channel=1&subtype=0"}
    assert told.remark == "gst-discoverer-1.0 tells its formats"
    assert [(path, name) for path, name, _ in speaks.asked] == [
        ("/onvif/device_service", "GetCapabilities"),
        ("/onvif/Media", "GetProfiles"),
        ("/onvif/Media", "GetStreamUri"),
    ]
    assert "<ProfileToken>Main &amp; &lt;1&gt;</ProfileToken>" in speaks.asked[2][2]
    assert all("<s:Header></s:Header>" in text for _, _, text in speaks.asked)
    line = yaml.safe_load(told.line)
    assert parse_source(line["uri"]).place.endswith("@127.0.0.1:8554/cam/realmonitor?channel=1&subtype=0")


def test_the_user_is_named_by_a_digest_at_the_cameras_time() -> None:
    speaks = Speaks(good("rtsp://192.0.2.9/user=admin&amp;password=s3cret&amp;channel=1"), "s3cret")
    with speaks.camera() as camera:
        told = _with_stream(camera, "admin<", "s3cret")
        refused = [_with_stream(camera, *account).remark for account in (("admin<", "wrong"), ("", ""))]
    assert told.source == {"uri": "rtsp://USER:PASSWORD@127.0.0.1:554/user=admin&password=PASSWORD&channel=1"}
    assert "s3cret" not in json.dumps([told.to_dict(), speaks.asked])
    assert refused == [f"it asks for another user or password; {REMARK}", f"it asks for a user and password; {REMARK}"]


@pytest.mark.parametrize(
    ("password", "told", "listed"),
    [
        ("", "user=None&amp;password=None", "user=None&password=None"),
        ("ad", "user=admin&amp;password=ad&amp;channel=1", "user=admin&password=PASSWORD&channel=1"),
        ("x/y", "user=admin_password=x%2Fy_channel=1?pw=x/y", "user=admin_password=PASSWORD_channel=1?pw=PASSWORD"),
    ],
)
def test_a_stream_is_listed_without_the_password_and_otherwise_as_told(password: str, told: str, listed: str) -> None:
    with Speaks(good(f"rtsp://192.0.2.9/{told}")).camera() as camera:
        source = _with_stream(camera, "admin", password).source
    assert source == {"uri": f"rtsp://USER:PASSWORD@127.0.0.1:554/{listed}"}


@pytest.mark.parametrize("told", ["rtsp:x@192.0.2.7/a", "rtsp:?x@192.0.2.7/a", "rtsp:///@192.0.2.7/a", "rtsp:.192.0.2.7/a"])
def test_no_address_that_a_camera_tells_sends_the_password_to_another_host(told: str) -> None:
    with Speaks(good(told)).camera() as camera:
        source = _with_stream(camera, "admin", "s3cret").source
    assert urlsplit(source["uri"]).netloc == "USER:PASSWORD@127.0.0.1:554"


def test_a_camera_that_answers_401_is_listed_with_what_it_asks_for() -> None:
    with Speaks({"GetCapabilities": SERVICES, "GetProfiles": (401, b"")}).camera() as camera:
        told = _with_stream(camera, "", "")
    assert told.remark == f"it asks for a user and password; {REMARK}"
    assert (told.source, told.address) == (camera.source, camera.address)


BOMB = b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">' + b"".join(
    f'<!ENTITY {b} "{f"&{a};" * 10}">'.encode() for a, b in zip("abcdefgh", "bcdefghi")
)


@pytest.mark.parametrize(
    "answers",
    [
        {"GetCapabilities": (200, BOMB + b"]><x>&i;</x>")},
        {"GetCapabilities": (200, (BOMB + b"]><x>&i;</x>").decode().encode("utf-16"))},
        {"GetCapabilities": (200, (BOMB + b"]><x>&i;</x>").decode().encode("utf-16-be"))},
        {"GetCapabilities": (200, b"<x>" + b"a" * (4 << 20) + b"</x>")},
        {"GetCapabilities": (200, b"<x>" * 300_000)},
        {"GetCapabilities": (200, b"<!doctype html><html><br></html>")},
        {"GetCapabilities": (200, b"")},
        {"GetCapabilities": (301, b"")},
        {"GetCapabilities": (500, b"\xff\xfe\0")},
        {"GetCapabilities": "<tt:Media><tt:XAddr>http://[broken/x</tt:XAddr></tt:Media>"},
        {"GetCapabilities": "<tt:Media><tt:XAddr>http://h/a b\r\nX: y</tt:XAddr></tt:Media>"},
        {"GetProfiles": "<trt:GetProfilesResponse/>", "GetStreamUri": FAULT.replace("NotAuthorized", "NoProfile")},
        {"GetStreamUri": STREAM % ""},
        {"GetStreamUri": STREAM % "file:///etc/passwd"},
        {"GetStreamUri": STREAM % "rtsp://camera:99999/x"},
        {"GetStreamUri": STREAM % "rtsp://[camera/x"},
        {"GetStreamUri": STREAM % "rtsp://camera:x/1"},
        {"GetSystemDateAndTime": "<tds:GetSystemDateAndTimeResponse/>"},
        {"GetSystemDateAndTime": CLOCK.replace("1970", "year")},
        {"GetSystemDateAndTime": CLOCK.replace("<tt:Hour>3", "<tt:Hour>")},
    ],
    ids=str,
)
def test_answers_that_tell_no_stream_cost_nothing_but_a_remark(answers: Dict[str, Answer]) -> None:
    began_s = time.process_time()
    with Speaks({**good(), **answers}).camera() as camera:
        told = _with_stream(camera, "admin", "s3cret")
    assert told.source == camera.source
    assert told.remark.endswith(f"; {REMARK}")
    assert len(told.remark) < 200
    assert time.process_time() - began_s < 5


def talk(say: Callable[[socket.socket], Any]) -> Tuple[str, threading.Event]:
    """The address of a server that answers one connection by `say`; what ends it."""
    server, end = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def serve() -> None:
        with server, contextlib.suppress(OSError):
            peer, _ = server.accept()
            with peer:
                say(peer)
                end.wait(20)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}/x", end


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n<x", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\n" * 200]
)
def test_a_camera_that_says_nothing_or_nonsense_is_given_up(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onvif, "ANSWER_S", 0.3)
    address, end = talk(lambda peer: peer.sendall(data))
    told = _with_stream(Camera("c", address, {"uri": "rtsp://USER:PASSWORD@127.0.0.1/PATH"}, remark=REMARK), "", "")
    end.set()
    assert told.remark.endswith(REMARK)


def drips(begin: bytes, again: bytes) -> Callable[[socket.socket], None]:
    """Answers for ever, each part within the time that a camera has."""

    def say(peer: socket.socket) -> None:
        peer.sendall(begin)
        for _ in range(100):
            peer.sendall(again)
            time.sleep(0.1)

    return say


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n<x>", b"a"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "header", "chunks", "continue"],
)
def test_a_camera_that_never_ends_its_answer_is_given_up(begin: bytes, again: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onvif, "ANSWER_S", 0.4)
    address, end = talk(drips(begin, again))
    began_s = time.monotonic()
    told = _with_stream(Camera("c", address, {"uri": "rtsp://USER:PASSWORD@127.0.0.1/PATH"}, remark=REMARK), "", "")
    end.set()
    assert told.remark.endswith(REMARK)
    assert time.monotonic() - began_s < 5


def test_what_a_camera_tells_stays_text_of_one_line() -> None:
    with Speaks(good('rtsp://h/a&#10;camera9: {uri: "x&quot;}&#9;b')).camera() as camera:
        told = _with_stream(camera, "", "")
    assert "\n" not in told.line
    assert list(yaml.safe_load(told.line)) == ["uri"]
