"""Every notebook opens in JupyterLab in headless Chromium: cells and figures show, sliders work, no errors."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.browser import Page, browser, chromium, until

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9]*.ipynb"))
TOKEN = secrets.token_hex(16)
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},  # no network
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},  # every cell in the page, also those below
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
SLIDERS = """
from rag_lab import prediction_widget
curve = [0.5, 0.5]
prediction_widget.draw(curve, ["first", "last"])
"""
PANEL = "[...window.jupyterapp.shell.widgets('main')].find(one => one.context)"
CELLS = "document.querySelectorAll('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell')"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One JupyterLab on a free port, over copies of the notebooks."""
    home = tmp_path_factory.mktemp("jupyterlab")
    served = home / "notebooks"
    shutil.copytree(FOLDER, served, ignore=shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__"))
    cells = [new_code_cell(SLIDERS.strip()), new_code_cell("curve")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(new_notebook(cells=cells, metadata=kernel), served / "sliders.ipynb")
    (home / "settings").mkdir()
    (home / "settings" / "overrides.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
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
        yield root
    finally:
        server.terminate()
        server.wait(timeout=60)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[Page]:
    with browser(str(chromium()), tmp_path_factory.mktemp("profile")) as page:
        yield page


def answers(url: str) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10):
            return True
    except OSError:
        return False


def open_notebook(page: Page, address: str, name: str) -> None:
    """Open a notebook alone and wait until its text and its kernel are there."""
    page.errors.clear()
    page.send("Page.navigate", url=f"{address}/lab/tree/{name}.ipynb?reset&token={TOKEN}")
    page.wait(f"location.pathname.endsWith('{name}.ipynb') && {CELLS}.length > 0")
    page.wait(f"{PANEL}?.context.isReady")
    kernel = f"{PANEL}.sessionContext.session?.kernel"
    page.wait(f"{kernel}?.connectionStatus === 'connected' && {kernel}.status === 'idle'")


def leave_notebook(page: Page) -> list[str]:
    """The page's errors; its notebook is saved, so that no dialog asks before the next, and its kernel shut down."""
    page.run(f"{PANEL}.context.save()")
    errors = list(page.errors)  # shutting down may cancel a message, which is the test's doing
    page.run(f"{PANEL}.sessionContext.shutdown()")
    return errors


pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium found: install it or set RAG_LAB_CHROMIUM")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_opens_and_shows_what_is_in_it(path: Path, page: Page, address: str) -> None:
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    figures = sum("image/png" in output.get("data", {}) for output in outputs)
    headings = sum(
        line.startswith("# ") for cell in cells if cell.cell_type == "markdown" for line in cell.source.splitlines()
    )
    open_notebook(page, address, path.stem)
    page.wait(f"{CELLS}.length === {len(cells)}")
    pictures = "[...document.querySelectorAll('.jp-OutputArea-output img')]"
    page.wait(f"{pictures}.filter(one => one.complete && one.naturalWidth > 0).length >= {figures}")
    assert page.run("document.querySelectorAll('.jp-RenderedMarkdown h1').length") == headings
    assert leave_notebook(page) == []


def test_a_slider_shows_and_moves_the_value_in_the_kernel(page: Page, address: str) -> None:
    open_notebook(page, address, "sliders")
    page.run(f"window.jupyterapp.shell.activateById({PANEL}.id)")
    page.run("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait("document.querySelectorAll('.widget-slider').length === 2")
    page.run("document.querySelector('.widget-slider .noUi-handle').focus()")
    page.press("ArrowUp", 38)
    page.wait("document.querySelector('.widget-readout').textContent === '0.55'")
    page.run(f"{PANEL}.content.activeCellIndex = 1")
    page.run("window.jupyterapp.commands.execute('notebook:run-cell')")
    page.wait("[...document.querySelectorAll('.jp-OutputArea-output')].at(-1).textContent.includes('[0.55, 0.5]')")
    assert leave_notebook(page) == []


def test_an_error_in_a_page_is_seen(page: Page) -> None:
    """Or the tests above could not fail."""
    page.errors.clear()
    page.send("Page.navigate", url="data:text/html,<script>console.error('one'); null.two</script>")
    page.wait("document.readyState === 'complete'")
    assert any("one" in error for error in page.errors)
    assert any("two" in error for error in page.errors)
