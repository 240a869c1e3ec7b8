"""ONVIF cameras of a network, found by WS-Discovery."""

from __future__ import annotations

import contextlib
import logging
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any, List, Optional, Tuple
from urllib.parse import unquote, urlsplit

from edgedla.errors import EnvironmentMissing, RunError, UsageError, need_python
from edgedla.runtime.sources.cameras import Camera

#: Cameras answer within half a second of a question, which is asked four times.
WAIT_S = 4.0
#: Older ones cannot read the scope of an IPv6 address, which WSDiscovery gives to all of them.
MINIMUM_PYTHON = (3, 9)
_KIND = ("http://www.onvif.org/ver10/network/wsdl", "NetworkVideoTransmitter")
_SCOPE = "onvif://www.onvif.org/"


def discovered(network: str) -> Tuple[Camera, ...]:
    """The cameras that answer on a network, as 192.168.1.0/24, or on an interface, as eth0; asks nowhere else.

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
    wanted: Optional[IPv4Network] = None
    with contextlib.suppress(ValueError):
        wanted = IPv4Network(network, strict=False)
    own = [
        (a.nice_name, IPv4Interface(f"{ip.ip}/{ip.network_prefix}")) for a in ifaddr.get_adapters() for ip in a.ips if ip.is_IPv4
    ]
    asking = [mine.ip for name, mine in own if (mine.network.overlaps(wanted) if wanted else name == network)]
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
        for address in asking:
            search.addSourceAddr(address)
        services = search.searchServices(types=[QName(*_KIND)], timeout=WAIT_S)
        found = [_camera(service.getXAddrs(), [str(s) for s in service.getScopes()]) for service in services]
        search.stop()
    except OSError as e:
        raise RunError(f"cannot ask for cameras: {e.strerror or e}", where=f"--onvif {network}") from e
    return tuple(sorted((camera for camera in found if camera), key=lambda camera: camera.address))


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
