"""Which hosts are this machine, and what to do where an address of its cannot be served."""

from __future__ import annotations

import contextlib
import errno
from typing import Optional, Sequence


def is_this_machine(host: str) -> bool:
    """True for localhost and for loopback addresses: what is sent there does not reach the network."""
    import ipaddress

    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def may_ask(host: str, names: Sequence[str]) -> bool:
    """False for a Host header with a name that nobody gave: a web page of any domain reaches this machine by DNS rebinding, and
    then reads what is served here. Addresses and localhost cannot be rebound.

    Args:
        host: the header's text, with or without a port. names: names by which visitors know this machine.
    """
    import ipaddress
    from urllib.parse import urlsplit

    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if name == "localhost" or name in (n.lower() for n in names):
        return True
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False


def refused(host: str) -> str:
    """The answer to a visitor whom `may_ask` refuses, with status 421."""
    return f"{host[:100]!r} is not a name of this pipeline: use its address, or start it with --view-name NAME\n"


def serving_hint(error: Exception) -> Optional[str]:
    """What to do where an address cannot be served; None if the error is another one."""
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return "another process serves this port: end it, or give this pipeline another port"
    if number == errno.EADDRNOTAVAIL:
        return "this machine has no such address: give 127.0.0.1, 0.0.0.0 or one of its own"
    return "ports below 1024 need the rights of root" if number in (errno.EACCES, errno.EPERM) else None
