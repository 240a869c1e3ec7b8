"""Which hosts are this machine, and what to do where an address of its cannot be served."""

from __future__ import annotations

import contextlib
import errno
from typing import Optional


def is_this_machine(host: str) -> bool:
    """True for localhost and for loopback addresses: what is sent there does not reach the network."""
    import ipaddress

    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def serving_hint(error: Exception) -> Optional[str]:
    """What to do where an address cannot be served; None if the error is another one."""
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return "another process serves this port: end it, or give this pipeline another port"
    if number == errno.EADDRNOTAVAIL:
        return "this machine has no such address: give 127.0.0.1, 0.0.0.0 or one of its own"
    return "ports below 1024 need the rights of root" if number in (errno.EACCES, errno.EPERM) else None
