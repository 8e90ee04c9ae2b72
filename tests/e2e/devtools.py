"""A real headless Chromium, driven over the pipe of its DevTools protocol: no library, no port."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

QUIET = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
)


class Browser:
    """One Chromium with one page. `timeout_s` bounds every wait."""

    def __init__(self, profile: Path, timeout_s: float = 60.0) -> None:
        self.timeout_s = timeout_s
        self.events: deque[dict] = deque()
        self.complaints: list[str] = []
        self._ids = itertools.count(1)
        self._left = b""
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4, whatever numbers the pipes have here.
        line = [CHROMIUM, *QUIET, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            line.append("--no-sandbox")
        wiring = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", wiring, "bash", *line, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._session = None
        targets = self("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def close(self) -> None:
        session, self._session = self._session, None
        try:
            self("Browser.close")
        except (OSError, EOFError, TimeoutError):
            self._process.kill()
        del session
        self._process.wait(timeout=30)
        os.close(self._out)
        os.close(self._in)

    def __call__(self, method: str, **parameters: object) -> dict:
        """One command, and its answer."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read(time.monotonic() + self.timeout_s)
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _read(self, deadline: float) -> dict:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise EOFError("the browser has ended")
            self._left += chunk
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict) -> None:
        self.events.append(event)
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Log.entryAdded" and parameters["entry"]["level"] in ("warning", "error"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))

    def show(
        self, *, width: int = 1280, height: int = 900, dark: bool = False, scripts: bool = True, calm: bool = True
    ) -> None:
        """What the screen and its owner are like, from the next page on."""
        self(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"},
        ]
        self("Emulation.setEmulatedMedia", features=features)
        self("Emulation.setScriptExecutionDisabled", value=not scripts)

    def go(self, url: str) -> None:
        """Open a page and wait until it has loaded."""
        self.events.clear()
        answer = self("Page.navigate", url=url)
        assert "errorText" not in answer, f"{url}: {answer['errorText']}"
        self._wait(
            lambda event: (
                event["method"] == "Page.frameNavigated"
                and event["params"]["frame"]["loaderId"] == answer["loaderId"]
            )
        )
        self._wait(lambda event: event["method"] == "Page.loadEventFired")

    def _wait(self, wanted: Callable[[dict], bool]) -> None:
        """Drop events up to the first that is wanted."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            if not self.events:
                self._note(self._read(deadline))
            elif wanted(self.events.popleft()):
                return

    def value(self, expression: str) -> object:
        """What an expression gives in the page."""
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, timeout_s: float = 20.0) -> object:
        """Ask again until the expression is true; says what it was at last where it never is."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                found = self.value(expression)
            except AssertionError:  # between two pages there is none to ask
                found = None
            if found:
                return found
            assert time.monotonic() < deadline, f"{expression} stayed {found!r} on {self.value('document.title')!r}"
            time.sleep(0.05)

    def press(self, key: str, code: int, text: str = "") -> None:
        """One key, as the keyboard sends it. `code` is its Windows virtual key code."""
        shared = {"key": key, "windowsVirtualKeyCode": code}
        self("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self("Input.dispatchKeyEvent", type="keyUp", **shared)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A PNG of the page."""
        data = self("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
