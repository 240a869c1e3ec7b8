"""Removes a user's data from a text: serial numbers, host and user names, addresses, paths below HOME."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, FrozenSet, List, Optional, Tuple

from edgedla.targets.jetson import read_text, root

_MAC = re.compile(r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b")
_IPV4 = re.compile(r"\b(?!127\.0\.0\.1\b)(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}(?![.\d])\b")
#: Must contain a digit, because C++ has `a::b` too.
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f:]*[0-9])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")
_SERIAL = re.compile(r"(?i)\b(serial(?:[ _-]?(?:number|no))?\s*[:=]\s*)\S+")
_HOME = re.compile(r"/(?:home|Users)/[^/\s'\":]+")
#: Version numbers look like addresses; these words come before versions.
_VERSION_BEFORE = re.compile(r"(?i)(?:version|release|tensorrt|cuda|v|=|-)\s*$")
#: Shorter names would match inside ordinary words.
_SHORTEST = 3
#: A key of our own documents is not replaced, though a user may be called `steps`.
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SERIAL_KEY = re.compile(r"(?i)serial|machine_?id")
_ORDINARY = frozenset({"root", "nvidia", "ubuntu", "jetson", "edgedla", "localhost", "user", "admin"})


class Redactor:
    """Replaces what identifies this machine or its user; `names` adds more names.

    Attributes:
        versions: version numbers of four parts, which are no addresses: 10.3.0.30 is a TensorRT.
    """

    def __init__(self, base: Optional[Path] = None, names: Tuple[str, ...] = ()) -> None:
        self.versions: FrozenSet[str] = frozenset()
        base = base or root()
        serials = [read_text(base / "proc/device-tree/serial-number"), read_text(base / "etc/machine-id")]
        self._secrets: List[Tuple[str, str]] = [(s, "<serial>") for s in serials if s and len(s) > _SHORTEST]
        host = socket.gethostname()
        # "orin7.lab.example": also replace the short name and the domain.
        hosts = dict.fromkeys((host, host.partition(".")[0], host.partition(".")[2]))
        for name, shown in (*((h, "<host>") for h in hosts), (_user(), "<user>"), *((n, "<name>") for n in names)):
            if len(name) >= _SHORTEST and name.lower() not in _ORDINARY:
                self._secrets.append((name, shown))
        self._home = os.path.expanduser("~")

    def __call__(self, text: str) -> str:
        text = _MAC.sub("<mac>", text)
        text = _SERIAL.sub(r"\1<serial>", text)
        if len(self._home) > _SHORTEST and self._home != "/root":
            text = text.replace(self._home, "<home>")
        text = _HOME.sub("<home>", text)
        for secret, shown in self._secrets:
            text = re.sub(rf"(?i)(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", shown, text)
        text = _IPV6.sub(_without_ipv6, text)
        return _IPV4.sub(
            lambda m: m[0] if m[0] in self.versions or _VERSION_BEFORE.search(text[: m.start()][-12:]) else "<address>", text
        )

    def document(self, text: str) -> str:
        """Redacts the texts of a JSON document but not its keys; any other text as a whole."""
        try:
            return json.dumps(self._value(json.loads(text)), indent=1) + "\n"
        except (ValueError, RecursionError):
            return self(text)

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key if _KEY.match(key) else self(key): "<serial>"
                if isinstance(part, str) and part and _SERIAL_KEY.search(key)
                else self._value(part)
                for key, part in value.items()
            }
        if isinstance(value, list):
            return [self._value(part) for part in value]
        return self(value) if isinstance(value, str) else value


def _without_ipv6(match: re.Match[str]) -> str:
    try:
        return match[0] if IPv6Address(match[0]).is_loopback else "<address>"
    except ValueError:
        return match[0]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
