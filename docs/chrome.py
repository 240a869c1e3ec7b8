"""A page in headless Chromium, driven over a pipe: the DevTools protocol with the standard library alone.

    with open_page(1280, 900) as page:
        page.go("file:///tmp/check.html")
        page.ask("document.title")

The methods are those of https://chromedevtools.github.io/devtools-protocol. Chromium reads commands from descriptor 3 and answers on
descriptor 4; each message is JSON and ends with a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator, List

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", "--no-first-run")


class Page:
    """One tab."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers, self._rest = commands, answers, b""
        self._number, self._session = 0, ""
        #: Addresses that the page asked for, and what it wrote on its console, since the last `go`.
        self.requests: List[str] = []
        self.console: List[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Dict[str, Any]:
        """The answer to one command of the protocol.

        Raises:
            RuntimeError: Chromium refuses it, or has ended.
        """
        self._number += 1
        message: Dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self._note(answer)

    def _read(self) -> Dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event: Dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event.get("method") == "Log.entryAdded":
            self.console.append(params["entry"]["text"])

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def dark(self, on: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def go(self, url: str) -> None:
        """Opens an address and waits, at most 30 s, until it is loaded."""
        self.requests, self.console = [], []
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def ask(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        made = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in made:
            raise RuntimeError(str(made["exceptionDetails"].get("exception", made["exceptionDetails"])))
        return made["result"].get("value")

    def until(self, script: str, seconds: float = 30.0) -> None:
        """Waits until an expression is true.

        Raises:
            TimeoutError: it is still false after this time.
        """
        end = time.monotonic() + seconds
        while not self.ask(script):
            if time.monotonic() > end:
                raise TimeoutError(f"not so within {seconds:g} s: {script}")
            time.sleep(0.05)

    def picture(self) -> bytes:
        """The visible part as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


@contextlib.contextmanager
def open_page(width: int, height: int = 1000, dark: bool = False) -> Iterator[Page]:
    """A blank page of a new Chromium, which ends with the block.

    Raises:
        FileNotFoundError: no Chromium is installed.
    """
    if not CHROMIUM:
        raise FileNotFoundError("no Chromium is installed: apt install chromium")
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()

    def place() -> None:
        # Moved out of the way first, so that neither overwrites the other.
        high_in, high_out = os.dup(theirs_in), os.dup(theirs_out)
        os.dup2(high_in, 3)
        os.dup2(high_out, 4)

    with tempfile.TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"],
            preexec_fn=place,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            page = Page(ours_out, ours_in)
            page.size(width, height)
            page.dark(dark)
            yield page
        finally:
            with contextlib.suppress(RuntimeError, OSError):
                page._session = ""
                page.call("Browser.close")
            with contextlib.suppress(subprocess.TimeoutExpired):
                browser.wait(10)
            browser.kill()
            browser.wait()
            os.close(ours_in)
            os.close(ours_out)
