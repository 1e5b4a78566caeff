"""Every notebook opens in JupyterLab in headless Chromium: cells and figures show, sliders work, no errors."""

import ast
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.browser import Page, browser, chromium, until

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9]*.ipynb"))
TOKEN = secrets.token_hex(16)
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},  # no network
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},  # every cell in the page, also those below
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
DISABLED = {
    "@jupyterlab/debugger-extension": True
}  # it questions every kernel, and complains when one ends meanwhile
PANEL = "[...window.jupyterapp.shell.widgets('main')].find(one => one.context)"
CELLS = "document.querySelectorAll('.jp-Notebook .jp-Cell')"


@dataclass(frozen=True)
class Lab:
    """A JupyterLab: its address, and the folder of copies that it serves."""

    address: str
    folder: Path


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One JupyterLab on a free port, over copies of the notebooks."""
    home = tmp_path_factory.mktemp("jupyterlab")
    served = home / "notebooks"
    shutil.copytree(FOLDER, served, ignore=shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__"))
    (home / "settings").mkdir()
    (home / "settings" / "overrides.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    (home / "config" / "labconfig").mkdir(parents=True)
    page_config = home / "config" / "labconfig" / "page_config.json"
    page_config.write_text(json.dumps({"disabledExtensions": DISABLED}), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        f"--notebook-dir={served}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--ServerApp.allow_root=True",
        f"--IdentityProvider.token={TOKEN}",
        f"--LabApp.app_settings_dir={home / 'settings'}",
        "--LabApp.news_url=",
        "--expose-app-in-browser",
        "--no-browser",
    ]
    private = {f"JUPYTER_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    private |= {"JUPYTERLAB_SETTINGS_DIR": str(home / "user"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "spaces")}
    with (home / "log").open("w") as log:
        command = [sys.executable, "-m", "jupyterlab", *options]
        server = subprocess.Popen(command, env={**os.environ, **private}, stdout=log, stderr=log)
    try:
        root = f"http://127.0.0.1:{port}"
        until(lambda: server.poll() is not None or answers(f"{root}/api"), lambda: (home / "log").read_text())
        assert server.poll() is None, (home / "log").read_text()
        yield Lab(root, served)
    finally:
        server.terminate()
        server.wait(timeout=60)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> Iterator[Page]:
    with browser(str(chromium()), tmp_path_factory.mktemp("profile")) as page:
        page.send("Page.navigate", url=f"{lab.address}/lab?reset&token={TOKEN}")
        page.wait("!!window.jupyterapp?.restored")
        page.run("window.jupyterapp.restored.then(() => true)")
        yield page


def answers(url: str) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10):
            return True
    except OSError:
        return False


@contextmanager
def opened(page: Page, name: str) -> Iterator[None]:
    """A notebook with its kernel, alone in the page and in front; closed at the end, after a look at the errors."""
    page.errors.clear()
    page.run(f"window.jupyterapp.commands.execute('docmanager:open', {{path: '{name}.ipynb'}}).then(() => true)")
    try:
        page.run(f"{PANEL}.context.ready.then(() => window.jupyterapp.shell.activateById({PANEL}.id))")
        kernel = f"{PANEL}.sessionContext.session?.kernel"
        page.wait(f"{kernel}?.connectionStatus === 'connected' && {kernel}.status === 'idle'")
        yield
        assert page.errors == []
    finally:
        page.run(f"{PANEL}.sessionContext.shutdown().then(() => {PANEL}.dispose())")


def value(page: Page, expression: str) -> Any:
    """What a Python expression is in the kernel of the notebook in front, a literal."""
    code = json.dumps(f"print({expression})")
    kernel = f"{PANEL}.sessionContext.session.kernel"
    printed = page.run(f"""new Promise(done => {{
        const asked = {kernel}.requestExecute({{code: {code}}});
        let text = "";
        asked.onIOPub = message => {{ text += message.content.text ?? ""; }};
        asked.done.then(() => done(text));
    }})""")
    return ast.literal_eval(printed)


pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium found: install it or set RAG_LAB_CHROMIUM")


@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
def test_a_notebook_opens_and_shows_what_is_in_it(name: str, page: Page, lab: Lab) -> None:
    cells = nbformat.read(lab.folder / f"{name}.ipynb", as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    figures = sum("image/png" in output.get("data", {}) for output in outputs)
    pictures = "[...document.querySelectorAll('.jp-OutputArea-output img')]"
    with opened(page, name):
        page.wait(f"{CELLS}.length === {len(cells)}")
        page.wait(f"{pictures}.filter(one => one.complete && one.naturalWidth > 0).length >= {figures}")
        page.wait("document.querySelectorAll('.jp-RenderedMarkdown h1').length === 1")


def test_the_curve_of_notebook_05_is_drawn_with_sliders(page: Page, lab: Lab) -> None:
    """Its cells down to the prediction run as they stand; a slider that is moved changes the list in the kernel."""
    name = "05_lost_in_the_middle"
    cells = nbformat.read(lab.folder / f"{name}.ipynb", as_version=4).cells
    (place,) = (i for i, cell in enumerate(cells) if cell.source.startswith("notebook.draw("))
    with opened(page, name):
        page.run(f"{PANEL}.content.activeCellIndex = {place}")
        page.run("window.jupyterapp.commands.execute('notebook:run-all-above').then(() => true)")
        page.run(f"{PANEL}.content.activeCellIndex = {place}")
        page.run("window.jupyterapp.commands.execute('notebook:run-cell').then(() => true)")
        before = value(page, "my_curve")
        page.wait(f"document.querySelectorAll('.widget-slider').length === {len(before)}")
        page.run("document.querySelector('.widget-slider .noUi-handle').focus()")
        page.press("ArrowDown", 40)
        page.wait(f"document.querySelector('.widget-readout').textContent === '{before[0] - 0.05:.2f}'")
        after = value(page, "my_curve")
        assert after == [pytest.approx(before[0] - 0.05), *before[1:]]


def test_an_error_in_a_page_is_seen(page: Page) -> None:
    """Or the tests above could not fail."""
    page.errors.clear()
    page.send("Page.navigate", url="data:text/html,<script>console.error('one'); null.two</script>")
    page.wait("document.readyState === 'complete'")
    assert any("one" in error for error in page.errors)
    assert any("two" in error for error in page.errors)
