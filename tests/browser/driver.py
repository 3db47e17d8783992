"""A small client of chromedriver: WebDriver is JSON over HTTP, so no library is needed.

The browser runs headless with an empty profile and resolves no host name; what it asks the network
for all the same, and what its console says, can be read afterwards.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

#: Names of the two programs, as distributions install them.
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_DRIVERS = ("chromedriver", "chromium-driver", "/usr/lib/chromium/chromedriver")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
#: Keys of the protocol.
TAB, ENTER, SPACE = "\ue004", "\ue007", " "
LEFT, UP, RIGHT, DOWN, HOME, END = "\ue012", "\ue013", "\ue014", "\ue015", "\ue011", "\ue010"


def programs() -> tuple[str, str] | None:
    """Paths of the browser and its driver, or None where one of them is missing."""
    browser = next((p for n in _BROWSERS if (p := shutil.which(n))), None)
    driver = next((p for n in _DRIVERS if (p := shutil.which(n))), None)
    return (browser, driver) if browser and driver else None


class Browser:
    """One headless browser with an empty profile; leave it as a context manager."""

    def __init__(self, profile: Path) -> None:
        found = programs()
        assert found is not None, "no chromium with its chromedriver on the PATH"
        self._driver = subprocess.Popen(
            [found[1], "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._base = f"http://127.0.0.1:{self._port()}"
        options = {
            "binary": found[0],
            "args": [*_FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"],
            "perfLoggingPrefs": {"enableNetwork": True},
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            self._call("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait(timeout=20)
            if self._driver.stdout is not None:
                self._driver.stdout.close()

    def _port(self) -> int:
        assert self._driver.stdout is not None
        deadline = time.monotonic() + 30
        for line in self._driver.stdout:
            match = re.search(r"successfully on port (\d+)", line)
            if match:
                return int(match[1])
            assert time.monotonic() < deadline, line
        raise AssertionError("chromedriver ended before it listened")

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(  # noqa: S310 - our own address
            self._base + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - as above
            return json.loads(answer.read())["value"]

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file at a width in CSS pixels, in a light or a dark scheme."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])
        self.logs("browser")
        self.logs("performance")
        self._call("POST", f"{self._session}/url", {"url": page.resolve().as_uri()})

    def resize(self, width: int, height: int) -> None:
        """The viewport, which headless windows cannot make as small as a phone's."""
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def cdp(self, command: str, **params: Any) -> Any:
        """A command of the DevTools protocol."""
        body = {"cmd": command, "params": params}
        return self._call("POST", f"{self._session}/goog/cdp/execute", body)

    def run(self, script: str, *args: Any) -> Any:
        """The value that a function body returns in the page."""
        body = {"script": script, "args": list(args)}
        return self._call("POST", f"{self._session}/execute/sync", body)

    def text(self, selector: str) -> str:
        """The text of the first element, as written in the page."""
        found = self.run("return document.querySelector(arguments[0]).textContent", selector)
        return str(found)

    def click(self, selector: str) -> None:
        """A real click in the middle of the first element."""
        found = self._call(
            "POST", f"{self._session}/element", {"using": "css selector", "value": selector}
        )
        self._call("POST", f"{self._session}/element/{found[_ELEMENT]}/click")

    def press(self, *keys: str) -> None:
        """Keys, one after the other, to whatever has the focus."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": strokes}]
        self._call("POST", f"{self._session}/actions", {"actions": actions})

    def logs(self, kind: str) -> list[dict[str, Any]]:
        """Entries since the last call: `browser` is the console, `performance` the network."""
        found = self._call("POST", f"{self._session}/se/log", {"type": kind})
        return list(found)

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened."""
        messages = [json.loads(entry["message"])["message"] for entry in self.logs("performance")]
        return [
            m["params"]["request"]["url"]
            for m in messages
            if m["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path, *, full: bool = True) -> None:
        """A picture of the page, in full or as far as the viewport shows it."""
        found = self.cdp(
            "Page.captureScreenshot", format="png", captureBeyondViewport=full
        ) if not full else self._full()  # fmt: skip
        path.write_bytes(base64.b64decode(found["data"]))

    def _full(self) -> Any:
        size = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return self.cdp(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
        )
