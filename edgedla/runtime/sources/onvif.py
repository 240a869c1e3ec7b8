"""ONVIF cameras of a network, found by WS-Discovery, and asked for their streams (https://www.onvif.org/ver10/media/wsdl/media.wsdl)."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import http.client
import logging
import os
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any, List, Optional, Tuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from edgedla.errors import EnvironmentMissing, RunError, UsageError, need_python
from edgedla.runtime.sources.cameras import Camera

#: Cameras answer within half a second of a question, which is asked four times.
WAIT_S = 4.0
#: Older ones cannot read the scope of an IPv6 address, which WSDiscovery gives to all of them.
MINIMUM_PYTHON = (3, 9)
_KIND = ("http://www.onvif.org/ver10/network/wsdl", "NetworkVideoTransmitter")
_SCOPE = "onvif://www.onvif.org/"
#: Seconds until a camera must answer, and most bytes of its answer.
ANSWER_S, MOST_BYTES = 5.0, 1 << 20
_WSS = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-"
#: User, digest of the password, nonce, the camera's time.
_TOKEN = (
    f'<Security s:mustUnderstand="1" xmlns="{_WSS}wssecurity-secext-1.0.xsd"><UsernameToken><Username>%s</Username>'
    f'<Password Type="{_WSS}username-token-profile-1.0#PasswordDigest">%s</Password>'
    f'<Nonce EncodingType="{_WSS}soap-message-security-1.0#Base64Binary">%s</Nonce>'
    f'<Created xmlns="{_WSS}wssecurity-utility-1.0.xsd">%s</Created></UsernameToken></Security>'
)
_STREAM = (
    '<StreamSetup xmlns:t="http://www.onvif.org/ver10/schema"><t:Stream>RTP-Unicast</t:Stream><t:Transport>'
    "<t:Protocol>RTSP</t:Protocol></t:Transport></StreamSetup><ProfileToken>%s</ProfileToken>"
)


def discovered(network: str) -> Tuple[Camera, ...]:
    """The cameras that answer on a network, as 192.168.1.0/24, or on an interface, as eth0; asks nowhere else. Before it
    USER:PASSWORD@ where they ask for these; the password may be in EDGEDLA_ONVIF_PASSWORD.

    Raises:
        EnvironmentMissing: WSDiscovery is not installed, or Python is too old for it. UsageError: this machine has no address there.
        RunError: the network cannot be asked.
    """
    need_python(MINIMUM_PYTHON, "asking for ONVIF cameras", hint="ask on a laptop in the cameras' network")
    try:
        import ifaddr
        from wsdiscovery import QName
        from wsdiscovery.discovery import ThreadedWSDiscovery
    except ImportError as e:
        raise EnvironmentMissing(f"WSDiscovery cannot be imported: {e}", hint="pip install 'edgedla[onvif]'") from e
    account, _, network = network.rpartition("@")
    user, password = (unquote(part) for part in account.partition(":")[::2])
    wanted: Optional[IPv4Network] = None
    with contextlib.suppress(ValueError):
        wanted = IPv4Network(network, strict=False)
    own = [
        (a.nice_name, IPv4Interface(f"{ip.ip}/{ip.network_prefix}")) for a in ifaddr.get_adapters() for ip in a.ips if ip.is_IPv4
    ]
    asking = [mine for name, mine in own if (mine.network.overlaps(wanted) if wanted else name == network)]
    if not asking:
        here = ", ".join(f"{mine.network} ({name})" for name, mine in own)
        raise UsageError(f"this machine is not on {network!r}", where="--onvif", allowed=here)
    # The library warns of messages that are not for it.
    logging.getLogger("daemon").setLevel(logging.ERROR)
    search: Any = ThreadedWSDiscovery()
    # Let alone, it asks on every network of this machine, and follows what anybody announces.
    search._networkAddressAdded = search._networkAddressRemoved = lambda address: None
    search._handle_hello = search._handle_bye = lambda message, address: None
    try:
        search.start()
        for mine in asking:
            search.addSourceAddr(mine.ip)
        services = search.searchServices(types=[QName(*_KIND)], timeout=WAIT_S)
        found = [_camera(service.getXAddrs(), [str(s) for s in service.getScopes()]) for service in services]
        search.stop()
    except OSError as e:
        raise RunError(f"cannot ask for cameras: {e.strerror or e}", where=f"--onvif {network}") from e
    # Straight from the maker, a camera often has an address of another network, where somebody else may answer.
    near = [c for c in found if c and any(IPv4Address(urlsplit(c.address).hostname or "") in mine.network for mine in asking)]
    password = password or os.environ.get("EDGEDLA_ONVIF_PASSWORD", "")
    with ThreadPoolExecutor(16) as pool:
        cameras = [*pool.map(lambda c: _with_stream(c, user, password), near), *(c for c in found if c and c not in near)]
    return tuple(sorted(cameras, key=lambda camera: camera.address))


def _with_stream(camera: Camera, user: str, password: str) -> Camera:
    """The camera with the stream of its first profile; else with why it has none."""
    at, token = urlsplit(camera.address), ""
    try:
        if user:
            # By the camera's clock, which is often wrong: it refuses what is seconds old.
            clock = _asked(camera.address, "", "device", "GetSystemDateAndTime").iterfind(".//{*}UTCDateTime/*/*")
            hour, minute, second, year, month, day = (int(each.text or "") for each in clock)
            nonce, created = os.urandom(16), f"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
            digest = hashlib.sha1(nonce + (created + password).encode()).digest()
            token = _TOKEN % (escape(user), base64.b64encode(digest).decode(), base64.b64encode(nonce).decode(), created)
        services = _asked(camera.address, token, "device", "GetCapabilities", "<Category>Media</Category>")
        media = urlunsplit(at._replace(path=urlsplit(services.findtext(".//{*}Media/{*}XAddr", camera.address)).path))
        profile = _asked(media, token, "media", "GetProfiles").find(".//{*}Profiles[@token]")
        name = "" if profile is None else profile.attrib["token"]
        uri = urlsplit(_asked(media, token, "media", "GetStreamUri", _STREAM % escape(name)).findtext(".//{*}Uri", "").strip())
        if uri.scheme not in ("rtsp", "rtsps"):
            raise ValueError("it tells no stream")
        # Where it was found, whatever it believes.
        source = urlunsplit((uri.scheme, f"USER:PASSWORD@{at.hostname}:{uri.port or 554}", uri.path, uri.query, ""))
        if password:
            # Some cameras have it in the path, plain or quoted.
            forms = "|".join(map(re.escape, (password, quote(password, safe=""))))
            source = re.sub(f"=({forms})(?![0-9A-Za-z])", "=PASSWORD", source)
        return dataclasses.replace(camera, source={"uri": source}, remark="gst-discoverer-1.0 tells its formats")
    except (OSError, http.client.HTTPException, ElementTree.ParseError, ValueError) as e:
        return dataclasses.replace(camera, remark=f"{getattr(e, 'strerror', None) or str(e)[:100]}; {camera.remark}")


def _hang_up(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _asked(address: str, token: str, service: str, name: str, content: str = "") -> ElementTree.Element:
    """The answer to a message; follows no redirection and no proxy."""
    at, kind = urlsplit(address), f"http://www.onvif.org/ver10/{service}/wsdl"
    body = f'<s:Header>{token}</s:Header><s:Body><{name} xmlns="{kind}">{content}</{name}></s:Body>'
    text = f'<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope">{body}</s:Envelope>'
    headers = {"Content-Type": f'application/soap+xml; charset=utf-8; action="{kind}/{name}"'}
    with contextlib.closing(http.client.HTTPConnection(str(at.hostname), at.port, timeout=ANSWER_S)) as connection:
        connection.connect()
        # The connection's own timeout begins anew with each byte.
        late = threading.Timer(ANSWER_S, _hang_up, (connection.sock,))
        late.start()
        try:
            connection.request("POST", at.path or "/", text.encode(), headers)
            answer = connection.getresponse()
            told = answer.read(MOST_BYTES).decode()
        finally:
            late.cancel()
    if answer.status == 401 or "NotAuthorized" in told:
        raise ValueError("it asks for another user or password" if token else "it asks for a user and password")
    # SOAP has none; a few lines of it make gigabytes of text.
    if "<!DOCTYPE" in told:
        raise ValueError("it defines entities")
    return ElementTree.fromstring(told)


def _camera(addresses: List[str], scopes: List[str]) -> Optional[Camera]:
    for address in addresses:
        try:
            host = IPv4Address(urlsplit(address).hostname or "")
        except ValueError:
            continue
        told = [unquote(s.rpartition("/")[2]) for kind in ("name/", "hardware/") for s in scopes if s.startswith(_SCOPE + kind)]
        name = " ".join(dict.fromkeys(told)).strip() or "camera"
        remark = f"its manual or http://{host}/ tells PATH and the formats"
        return Camera(name, address, {"uri": f"rtsp://USER:PASSWORD@{host}/PATH"}, remark=remark)
    return None
