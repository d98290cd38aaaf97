"""Drives a headless Chromium through the DevTools protocol."""
import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request

import websocket

FLAGS = ["--headless=new", "--remote-debugging-port=0", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-allow-origins=*"]


def chromium():
    """Returns the path of Chromium; None if it is not installed."""
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="egpu-page-")
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen([chromium(), *FLAGS, *sandbox, f"--user-data-dir={self.folder}", "about:blank"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = os.path.join(self.folder, "DevToolsActivePort")
        deadline = time.monotonic() + 30
        while not (os.path.exists(port_file) and (lines := open(port_file, encoding="ascii").read().split("\n")) and len(lines) > 1):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("chromium did not start")
            time.sleep(0.05)
        self.port = int(lines[0])

    def tab(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return Tab(json.load(answer)["webSocketDebuggerUrl"])

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)


class Tab:
    """One page. `problems` collects exceptions, errors of the console and violations of the Content-Security-Policy."""

    def __init__(self, url):
        self.socket = websocket.create_connection(url, timeout=60)
        self.number = 0
        self.problems = []
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            self.note(message)
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]

    def note(self, message):
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        if message.get("method") == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.problems.append(str(params["args"]))

    def evaluate(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"]["exception"].get("description", result))
        return result["result"].get("value")

    def open(self, url):
        self.send("Page.navigate", url=url)

    def until(self, expression, seconds=15):
        """Waits until the expression is true, and returns its last value. A page that is loading counts as false."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                value = self.evaluate(expression)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                value = None
            if value or time.monotonic() > deadline:
                return value
            time.sleep(0.05)

    def shape(self, width=1280, height=900, dark=False, scale=1):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 500)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def press(self, key, code=0, text=None):
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def text(self):
        return re.sub(r"\s+", " ", self.evaluate("document.body.innerText"))

    def screenshot(self, path, whole=False):
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
