"""Addresses of cameras and services as documents, logs and results may show them: without what may be a password."""

from __future__ import annotations

import os
import re
from typing import Any

from edgedla.text.printable import SECRET_VALUE

_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]*")
_NETWORK = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*)://([^\s\"'<>]*)")
#: A host name or address with its port.
_HOST = re.compile(r"(?i)(\[[0-9a-f:.%]+\]|[\w.-]+)(:\d+)?\Z")
#: An address without its scheme, as some users type it: user:password@camera/1.
_BARE = re.compile(r"(?i)(?:(?:rtsps?|https?)?//)?[^\s/@]*:[^@]*@")
#: A quoted value of a pipeline, to its end or the pipeline's.
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*(?:\"|\Z)|'[^']*(?:'|\Z)")
#: Schemes without secrets in their text: devices, files, generated frames. Of others logs show only scheme and host.
_LOCAL = frozenset({"csi", "v4l2", "file", "images", "synthetic"})


def shown(text: str) -> str:
    """A source as logs, metrics and results may show it: of a network address only scheme and host.

    Cameras take passwords in every part of an address (user:password@, /user=a_password=b, ?token=c), so the rest is
    hidden. "rtsp://user:secret@cam:554/1" becomes "rtsp://cam:554/..."; of a pipeline the names of elements stay.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return "..." if is_bare(text) else text
    if scheme.lower() in _LOCAL:
        return text
    if scheme.lower() == "gst":
        # A quoted password may hold a "!".
        elements = [part.split()[0] for part in _QUOTED.sub("=", rest).split("!") if part.split()]
        return "gst://" + " ! ".join("..." if "=" in e or ":" in e else e for e in elements)
    # With a password before the scheme, show nothing.
    return _address(scheme, rest) if _SCHEME.fullmatch(scheme) else "..."


def is_bare(text: str) -> bool:
    """Whether it is an address without its scheme, as some users type it: user:password@camera/1."""
    return _BARE.match(text) is not None and not os.path.exists(text)


def _address(scheme: str, rest: str) -> str:
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    host = authority.rpartition("@")[2]
    # A later @ may end a password with a slash in it; what looks like the host is then a part of the password.
    if "@" in rest[len(authority) :] or not _HOST.match(host):
        return f"{scheme}://..."
    return f"{scheme}://{host}" + ("/..." if len(rest) > len(authority) + 1 else "")


def has_secret(text: str) -> bool:
    """Whether an address names a user or holds what looks like a password, a key or a token."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return is_bare(text)
    if scheme.lower() in _LOCAL:
        return False
    return "@" in text or SECRET_VALUE.search(rest) is not None


def without_secrets(text: str) -> str:
    """Text of GStreamer or OpenCV with every address reduced to scheme and host, and values of secret keys hidden."""
    return SECRET_VALUE.sub(r"\1***", _NETWORK.sub(lambda m: _address(m.group(1), m.group(2)), text))


def shown_document(value: Any) -> Any:
    """A document with every address in it as `shown` gives it: a camera's address is its password too."""
    if isinstance(value, dict):
        return {key: shown_document(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown_document(each) for each in value]
    return shown(value) if isinstance(value, str) else value
