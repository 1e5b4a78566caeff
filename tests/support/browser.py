"""Headless Chromium driven by the DevTools protocol over its websocket: enough to open a page and look at it."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",  # only the server on this machine is asked
    "--window-size=1300,1500",
    "about:blank",
)
PATIENCE = 120  # seconds for anything to appear; a slow machine is no failure


def chromium() -> str | None:
    """The browser's path, or None; RAG_LAB_CHROMIUM names one that is elsewhere."""
    named = os.environ.get("RAG_LAB_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. ``errors`` are its exceptions and what it logged as errors, as text, since they were last emptied."""

    def __init__(self, address: str) -> None:
        self.errors: list[str] = []
        self._ids = itertools.count(1)
        self._socket = websocket.create_connection(address, timeout=PATIENCE, suppress_origin=True)
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; RuntimeError where the browser refuses it."""
        id_ = next(self._ids)
        self._socket.send(json.dumps({"id": id_, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == id_:
                if "Promise was collected" in str(message.get("error")):  # a page that was busy: ask once more
                    return self.send(method, **parameters)
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return dict(message["result"])
            self._note(message)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, awaited; RuntimeError with its exception."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if details := answer.get("exceptionDetails"):
            raise RuntimeError(f"{script}: {_description(details)}")
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """The expression's value once it is true; TimeoutError with the errors so far where it stays false."""
        return until(lambda: self.run(script), lambda: f"{script} stayed false; errors: {self.errors}")

    def press(self, key: str, code: int) -> None:
        """Press and release a key of the focused element; ``code`` is its Windows virtual key code."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path) -> None:
        """Write what the page shows as a PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """Leave the page."""
        self._socket.close()

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            self.errors.append(f"exception: {_description(parameters['exceptionDetails'])}")
        if message["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            said = (str(one.get("value", one.get("description", ""))) for one in parameters["args"])
            self.errors.append(f"console: {' '.join(said)}")
        if message["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            entry = parameters["entry"]
            self.errors.append(f"log: {entry['text']} {entry.get('url', '')}")


@contextmanager
def browser(program: str, folder: Path) -> Iterator[Page]:
    """A page of a new browser whose profile is in ``folder``; both are gone at the end."""
    command = [program, *OPTIONS[:-1], f"--user-data-dir={folder}", OPTIONS[-1]]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.insert(1, "--no-sandbox")  # root may not have one
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port_file = folder / "DevToolsActivePort"
        port = until(lambda: port_file.exists() and port_file.read_text().split(), lambda: f"no {port_file}")[0]
        page = Page(until(lambda: _page_address(port), lambda: "the browser has no page"))
        try:
            yield page
        finally:
            page.close()
    finally:
        process.terminate()
        process.wait(timeout=30)


def until(look: Callable[[], Any], complaint: Callable[[], str]) -> Any:
    """The first true value of ``look``; TimeoutError with ``complaint`` after ``PATIENCE`` seconds."""
    last = time.monotonic() + PATIENCE
    while time.monotonic() < last:
        if value := look():
            return value
        time.sleep(0.2)
    raise TimeoutError(complaint())


def _page_address(port: str) -> str | None:
    with _open(f"http://127.0.0.1:{port}/json/list") as answer:
        pages = [target for target in json.load(answer) if target["type"] == "page"]
    return str(pages[0]["webSocketDebuggerUrl"]) if pages else None


def _open(address: str) -> Any:
    """Past any proxy: everything here is on this machine."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=10)


def _description(details: dict[str, Any]) -> str:
    return str(details.get("exception", {}).get("description") or details.get("text"))
