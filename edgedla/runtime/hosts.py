"""Which hosts are this machine."""

from __future__ import annotations

import contextlib


def is_this_machine(host: str) -> bool:
    """True for localhost and for loopback addresses: what is sent there does not reach the network."""
    import ipaddress

    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
