"""The address of a board, [user@]host[:port], parsed and checked before it becomes an argument of ssh."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Optional

from edgedla.errors import UsageError

#: Users of a directory service too: DOMAIN\\user, user@domain.
_USER = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.+@\\-]{0,62}[A-Za-z0-9_.-])?\Z")
#: A name, an IPv4 or IPv6 address, or a Host of ssh_config. Never a leading dash: ssh would take it for an option.
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,253}\Z|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9_.-]+)?\Z")
_ADDRESS = re.compile(
    r"(?:(?P<user>.*)@)?(?:\[(?P<v6>[^\]]*)\]|(?P<bare>[^@\[\]]*:[^@\[\]]*:[^@\[\]]*)|(?P<host>[^@:\[\]]*))(?::(?P<port>[^:]*))?\Z"
)


@dataclass(frozen=True)
class Address:
    """A board's address; parts that are None come from ssh_config."""

    host: str
    user: Optional[str] = None
    port: Optional[int] = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (f"{self.user}@" if self.user else "") + host + (f":{self.port}" if self.port else "")


def parse_address(text: str) -> Address:
    """Parses `[user@]host[:port]`, with an IPv6 address in brackets if a port follows.

    Raises:
        UsageError: another form, or characters that a name cannot contain.
    """
    match = _ADDRESS.match(text)
    host = (match["v6"] or match["bare"] or match["host"] or "") if match else ""
    named = match is not None and (match["user"] is None or _USER.match(match["user"]))
    if match is None or not named or not _HOST.match(host) or (":" in host and not _is_ipv6(host)):
        raise UsageError(
            f"{text!r} is not an address of a board", where="--board", allowed="NAME or [user@]host[:port], [IPv6]:port"
        )
    if match["port"] is not None and not (re.fullmatch("[0-9]{1,5}", match["port"]) and 0 < int(match["port"]) < 65536):
        raise UsageError(f"the port {match['port']!r} of {text!r}", where="--board", allowed="1 to 65535")
    return Address(host, match["user"], int(match["port"]) if match["port"] else None)


def _is_ipv6(host: str) -> bool:
    try:
        return bool(IPv6Address(host.partition("%")[0]))
    except ValueError:
        return False
