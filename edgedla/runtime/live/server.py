"""Serves the live page: /, its stylesheet and script, state.json, and pictures; with a token if one is set."""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import re
import threading
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple
from urllib.parse import parse_qs, unquote, urlsplit

from edgedla.errors import RunError
from edgedla.runtime.health.endpoint import BoundedServer, QuietHandler
from edgedla.runtime.hosts import is_this_machine, may_ask, refused, serving_hint
from edgedla.runtime.live.hls import NAMES, PICTURE_S, Hls, chain
from edgedla.runtime.live.scenes import Scene, Scenes
from edgedla.runtime.live.state import State, Warnings
from edgedla.runtime.pipeline.pipeline import Pipeline
from edgedla.runtime.pipeline.settings import ViewConfig

log = logging.getLogger("edgedla.runtime.live")

TEMPLATES = Path(__file__).resolve().parent / "templates"
#: One stylesheet for all of edgedla's pages.
SHEET = Path(__file__).resolve().parents[2] / "reports" / "templates" / "style.css"
#: A browser opens six connections; an MJPEG viewer holds one while it watches.
MOST_CONNECTIONS, LONGEST_S, SILENCE_S = 64, 24 * 3600.0, 20.0
COOKIE = "edgedla_token"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "media-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
BOUNDARY = "edgedla-frame"
_PIECE = re.compile(rf"/camera/(.+)/({NAMES.pattern})")


class ViewServer(BoundedServer):
    most, total_s = MOST_CONNECTIONS, LONGEST_S


@dataclass
class Site:
    """The content that the handler serves."""

    state: State
    scenes: Scenes
    token: str
    stopped: threading.Event
    names: Tuple[str, ...] = ()
    #: GStreamer's elements of a film in pieces; "": none.
    film: str = ""
    films: Dict[str, Hls] = field(default_factory=dict)


class Handler(QuietHandler):
    """Read-only; every answer has the headers HEADERS."""

    site: Site
    server: ViewServer
    protocol_version = "HTTP/1.1"
    timeout = SILENCE_S

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        host = self.headers.get("Host", "")
        if not self.site.token and not may_ask(host, self.site.names):
            return self.answer(421, "text/plain; charset=utf-8", refused(host).encode())
        if self.site.token and not self._has_token(parse_qs(parts.query)):
            return None
        path = unquote(parts.path)
        if path == "/":
            return self.answer(200, "text/html; charset=utf-8", page(self.site.state.document(), bool(self.site.film)))
        if path == "/style.css":
            return self.answer(200, "text/css; charset=utf-8", SHEET.read_bytes() + (TEMPLATES / "live.css").read_bytes())
        if path == "/live.js":
            return self.answer(200, "text/javascript; charset=utf-8", (TEMPLATES / "live.js").read_bytes())
        if path == "/state.json":
            return self.answer(200, "application/json", json.dumps(self.site.state.document()).encode())
        piece = _PIECE.fullmatch(path)
        return self._film(*piece.groups()) if piece and self.site.film else self._picture(path)

    def _film(self, source: str, name: str) -> None:
        scene, films = self.site.scenes.by_source.get("" if source == "-" else source), self.site.films
        film = films.get(source) or (scene and films.setdefault(source, Hls(scene, self.site.film, self.site.stopped)))
        data = film and film.file(name)
        if not data:
            return self.answer(404, "text/plain", b"nothing here\n")
        return self.answer(200, "video/mp2t" if name.endswith("ts") else "application/vnd.apple.mpegurl", data)

    def _picture(self, path: str) -> None:
        key, dot, ending = path[1:].rpartition(".")
        folder, _, name = key.partition("/")
        scene = self.site.scenes.by_source.get("" if name == "-" else name) if folder == "camera" and dot else None
        if scene is None or ending not in ("jpg", "mjpg"):
            return self.answer(404, "text/plain", b"nothing here\n")
        if ending == "mjpg":
            return self._stream(scene)
        data = scene.jpeg(PICTURE_S)
        if not data:
            return self.answer(503, "text/plain", b"no picture yet\n")
        return self.answer(200, "image/jpeg", data)

    def _stream(self, scene: Scene) -> None:
        self.server.watches(self.connection)
        self.send_response(200)
        self.send_header("Content-Type", f"multipart/x-mixed-replace; boundary={BOUNDARY}")
        self.end_headers()
        self.close_connection = True
        while not self.site.stopped.is_set():
            data = scene.jpeg(PICTURE_S)
            if data:
                head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
                self.wfile.write(head.encode() + data + b"\r\n")

    def _has_token(self, query: Dict[str, List[str]]) -> bool:
        """True if the request has the token; otherwise sends an answer. A token in the address is moved into a cookie."""
        given = (query.get("token") or [""])[0]
        if given and self._same(given):
            self.send_response(303)
            self.send_header("Location", "/")
            self.send_header("Set-Cookie", f"{COOKIE}={given}; HttpOnly; SameSite=Strict; Path=/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False
        bearer = self.headers.get("Authorization", "").partition("Bearer ")[2]
        try:
            morsel = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            morsel = None
        if self._same(bearer) or (morsel is not None and self._same(morsel.value)):
            return True
        self.answer(401, "text/plain", b"the address needs its token: /?token=...\n")
        return False

    def _same(self, given: str) -> bool:
        return bool(given) and hmac.compare_digest(given.encode(), self.site.token.encode())

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()


def page(document: Dict[str, Any], film: bool = False) -> bytes:
    """The page with its first state, so that it can be read without the script."""
    import jinja2

    loader = jinja2.FileSystemLoader(str(TEMPLATES))
    template = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined).get_template("live.html.j2")
    # A source may be a file whose name is not UTF-8.
    return template.render(d=document, film=film).encode("utf-8", "backslashreplace")


@contextlib.contextmanager
def serve_view(pipeline: Pipeline, config: ViewConfig, title: str = "") -> Iterator[Optional[str]]:
    """Serves the live page within the `with` block; yields its address, or None if `config` asks for no page.

    Raises:
        RunError: the port is in use, or the token cannot be read.
    """
    if not config.port:
        yield None
        return
    token, warnings = _token(config), Warnings()
    scenes = Scenes(tuple(pipeline.captures), config.rate, config.width)
    stopped = threading.Event()
    film = chain(config.rate) if config.video == "hls" else ""
    site = Site(State(pipeline, scenes, warnings, title), scenes, token, stopped, config.names, film)
    handler = type("SiteHandler", (Handler,), {"site": site})
    try:
        server = ViewServer((config.address, config.port), handler)
    except (OSError, OverflowError) as e:
        where = f"{config.address}:{config.port}"
        what = f"cannot serve the live page: {getattr(e, 'strerror', None) or e}"
        raise RunError(what, where=where, hint=serving_hint(e)) from e
    if not token and not is_this_machine(config.address):
        log.warning("the live page on %s:%d shows the cameras to everybody who reaches it", config.address, config.port)
    pipeline.add_sink(scenes)
    logging.getLogger("edgedla").addHandler(warnings)
    thread = threading.Thread(target=server.serve_forever, name="edgedla-view", daemon=True)
    thread.start()
    host = f"[{config.address}]" if ":" in config.address else config.address
    try:
        yield f"http://{host}:{server.server_address[1]}/"
    finally:
        stopped.set()
        for made in site.films.values():
            made.join()
        logging.getLogger("edgedla").removeHandler(warnings)
        server.shutdown()
        server.server_close()
        thread.join(5)


def _token(config: ViewConfig) -> str:
    if not config.token_file:
        return ""
    try:
        token = Path(config.token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise RunError(f"the token cannot be read: {getattr(e, 'strerror', None) or e}", where=config.token_file) from e
    if not token.isascii() or not token.isprintable() or len(token) < 16 or any(c in token for c in ' ";,\\'):
        raise RunError(
            "this is not a token", where=config.token_file, allowed='16 or more letters, digits and signs, without space " ; , \\'
        )
    return token
