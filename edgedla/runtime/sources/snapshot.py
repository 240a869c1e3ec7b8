"""A camera that gives one picture per request: http://camera/snapshot.jpg, asked `rate` times a second."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import Any, Optional, Tuple
from urllib.parse import unquote, urlsplit, urlunsplit

import numpy as np

from edgedla.errors import RunError
from edgedla.runtime.sources.base import CameraDenied, Pace
from edgedla.runtime.sources.opencv import flipped, import_cv2
from edgedla.runtime.sources.uri import SourceUri

#: Requests a second where the user gives no rate; seconds until an answer must come; most bytes of a picture.
RATE, TIMEOUT_S, MOST_BYTES = 1.0, 10.0, 64 << 20


class SnapshotSource:
    """Basic and digest authentication by the address's user and password."""

    live, recorded, pixels = True, False, "bgr"

    def __init__(self, uri: SourceUri) -> None:
        self.uri, self.rate, self._spec = uri.text, uri.rate or RATE, uri
        self._pace, self._opener = Pace(self.rate), _opener(uri)
        parts = urlsplit(uri.place)
        self._address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._ahead: Optional[np.ndarray] = None
        self._left = uri.frames or -1

    def open(self) -> Tuple[int, int]:
        self._pace.start()
        self._ahead = self._picture()
        return self._ahead.shape[0], self._ahead.shape[1]

    def _picture(self) -> np.ndarray:
        self._pace.wait()
        try:
            with self._opener.open(self._address, timeout=TIMEOUT_S) as answer:
                data = answer.read(MOST_BYTES)
        except urllib.error.HTTPError as e:
            kind = CameraDenied if e.code in (401, 403) else RunError
            raise kind(f"the camera answers {e.code} {e.reason}", where=self.uri) from None
        except (OSError, ValueError) as e:
            raise RunError(f"no answer: {getattr(e, 'reason', None) or e}", where=self.uri) from None
        cv2: Any = import_cv2()
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
        if image is None:
            raise RunError("the answer is not a picture", where=self.uri, hint="open the address in a browser")
        image = flipped(image, self._spec.flip)
        if self._spec.width:
            image = cv2.resize(image, (self._spec.width, self._spec.height), interpolation=cv2.INTER_AREA)
        return np.asarray(image)

    def read(self) -> Optional[np.ndarray]:
        if self._left == 0:
            return None
        ahead, self._ahead = self._ahead, None
        self._left -= 1
        return ahead if ahead is not None else self._picture()

    def close(self) -> None:
        self._ahead = None


def _opener(uri: SourceUri) -> urllib.request.OpenerDirector:
    parts = urlsplit(uri.place)
    context = ssl.create_default_context(cafile=uri.ca_file or None)
    if uri.unchecked:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    if parts.username:
        host = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
        passwords.add_password(None, host, unquote(parts.username), unquote(parts.password or ""))
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPBasicAuthHandler(passwords),
        urllib.request.HTTPDigestAuthHandler(passwords),
    )
