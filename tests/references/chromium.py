"""A headless Chromium, driven through two pipes by the DevTools protocol: no package is needed."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)


AXE = importlib.util.find_spec("axe_playwright_python")  # for its script; Playwright is not used
NO_AXE = "NOT RUN: axe-playwright-python is missing; `make test-browser` installs it"


def find_chromium():
    """Returns the path of an installed Chromium or Chrome, or None.

    Raises:
        FileNotFoundError: If there is none and the environment asks for one, as CI does.
    """
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if not found and os.environ.get("KERAS_ATTENTION_REQUIRE_BROWSER"):
        raise FileNotFoundError(
            f"KERAS_ATTENTION_REQUIRE_BROWSER is set, and none of {NAMES} found"
        )
    return found


CHROMIUM = find_chromium()
#: The marks of tests in a browser.
NEEDS_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="NOT RUN: there is no Chromium (or Chrome)"),
]


class Browser:
    """One tab. `events` are all messages of the browser, such as errors and requests."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        from_us, self._out = os.pipe()
        self._in, to_us = os.pipe()
        script = f'exec "$@" 3<&{from_us} 4>&{to_us}'
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(from_us, to_us),
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        self._left, self._number, self._session = b"", 0, None
        self.events = []
        targets = self.send("Target.getTargets")["targetInfos"]
        tab = next(one["targetId"] for one in targets if one["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=tab, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        """Returns the result of a command of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self):
        while b"\0" not in self._left:
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._left += part
        text, _, self._left = self._left.partition(b"\0")
        return json.loads(text)

    def open(self, path, width=1440, height=900, scheme="light"):
        """Opens a file, or a URL as str, in a window of this size and color scheme."""
        self.events.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        url = path if isinstance(path, str) else path.resolve().as_uri()
        self.send("Page.navigate", url=url)
        while not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.events.append(self._read())

    def run(self, script):
        """Returns the value of a JavaScript expression; a promise is awaited."""
        result = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def find_names(self):
        """Returns `{(role, name)}` of all that a screen reader finds on the page."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        return {
            (node["role"]["value"], node.get("name", {}).get("value"))
            for node in nodes
            if not node["ignored"]
        }

    def move_to(self, selector, click=False):
        """Moves the mouse to the middle of an element, and may click there."""
        at = self._find_middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)
        self.wait_for_frame()

    def tap(self, selector):
        """Touches the middle of an element for a moment."""
        self.send("Emulation.setTouchEmulationEnabled", enabled=True)
        at = self._find_middle(selector)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.wait_for_frame()
        self.send("Emulation.setTouchEmulationEnabled", enabled=False)

    def _find_middle(self, selector):
        box = "(e => (e.scrollIntoView({block: 'center'}), e.getBoundingClientRect().toJSON()))"
        box = self.run(f"{box}(document.querySelector({json.dumps(selector)}))")
        return {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}

    def press(self, *keys):
        """Presses keys, named as in `KeyboardEvent.key`."""
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {}
            code = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36}.get(key)
            code = code or {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[key]
            event = {"key": key, "code": key, "windowsVirtualKeyCode": code}
            self.send("Input.dispatchKeyEvent", type="keyDown", **event, **text)
            self.send("Input.dispatchKeyEvent", type="keyUp", **event)
        self.wait_for_frame()

    def wait_for_frame(self):
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def list_errors(self):
        """Returns the errors, refused resources and requests to a network since `open`."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            url = parameters.get("request", {}).get("url", "file:")
            is_error = parameters.get("entry", {}).get("level") == "error"
            if is_error or event.get("method") == "Runtime.exceptionThrown":
                found.append(parameters)
            elif not url.startswith(("file:", "data:")):
                found.append(url)
        return found

    def list_violations(self):
        """Returns the rules of axe-core that the open page violates, and the elements."""
        script = pathlib.Path(AXE.origin).with_name("axe.min.js").read_text("utf-8")
        self.run(f"{script}; 0")
        return self.run(
            "axe.run({resultTypes: ['violations']}).then(found => found.violations.map(one =>"
            " [one.id, ...one.nodes.slice(0, 3).map(node => node.html.slice(0, 120))]))"
        )

    def close(self):
        self._process.terminate()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()
