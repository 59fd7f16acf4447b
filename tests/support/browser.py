"""A headless Chromium, spoken to through a pipe: opens a page, asks it things, takes its picture.

Nothing but the standard library is needed beside the browser itself (Debian's packages
`chromium-headless-shell` or `chromium`); `NPUSIM_BROWSER` names another one. Whether people who
don't see a page well can use it is asked of Deque's axe-core (https://github.com/dequelabs/axe-core),
the script of which the package `axe-core-python` brings; `NPUSIM_AXE` names another copy.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_ERRORS = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}

# The browser reads at 3 and writes at 4, whatever numbers the pipe's ends have here.
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for number, end in zip((3, 4), ends):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""


def browser_path() -> str | None:
    """The browser of this machine, None if it has none."""
    return os.environ.get("NPUSIM_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


def axe_path() -> Path | None:
    """The `axe.min.js` of this machine, None if it has none."""
    named = os.environ.get("NPUSIM_AXE")
    if named:
        return Path(named)
    package = importlib.util.find_spec("axe_core_python")
    folders = package.submodule_search_locations if package else None
    files = (Path(folder) / "axe.min.js" for folder in folders or ())
    return next(filter(Path.is_file, files), None)


@dataclass
class Shown:
    """A page as the browser has it: what went wrong, and its picture."""

    problems: list[str]
    picture: bytes
    answers: dict[str, Any] = field(default_factory=dict)


class Browser:
    """One browser process; use it as a context manager."""

    def __init__(self, path: str, folder: Path) -> None:
        self._number = 0
        self._events: list[dict[str, Any]] = []
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        command = [
            path,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND",  # a page that needs the network shows it
            f"--user-data-dir={folder}",
            "--remote-debugging-pipe",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._to)
        os.close(self._from)

    def show(
        self,
        file: Path,
        *,
        width: int = 1200,
        dark: bool = False,
        media: str = "screen",
        questions: dict[str, str] | None = None,
        script: Path | None = None,
    ) -> Shown:
        """Open a file at this width and in this theme; `questions` are JavaScript expressions.

        `script` is run in the page before they are asked; a promise is waited for.
        """
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = attached["sessionId"]
        self._events.clear()
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable", session=page)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", size, page)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", {"media": media, "features": [theme]}, page)
        self._call("Page.navigate", {"url": file.resolve().as_uri()}, page)
        self._await("Page.loadEventFired")
        if script is not None:
            self._ask(script.read_text(encoding="utf-8") + "\n;0", page)
        answers = {
            name: self._ask(expression, page) for name, expression in (questions or {}).items()
        }
        shot = {"format": "png", "captureBeyondViewport": True}
        picture = self._call("Page.captureScreenshot", shot, page)["data"]
        problems = [json.dumps(each) for each in self._events if each["method"] in _ERRORS]
        self._call("Target.closeTarget", {"targetId": target})
        return Shown(problems, base64.b64decode(picture), answers)

    def _ask(self, expression: str, page: str) -> Any:
        wanted = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self._call("Runtime.evaluate", wanted, page)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _call(
        self, method: str, parameters: dict[str, Any] | None = None, session: str = ""
    ) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def _await(self, event: str) -> None:
        while not any(each.get("method") == event for each in self._events):
            self._events.append(self._read())

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = os.read(self._from, 1 << 20)
            assert chunk, "the browser has gone"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded
