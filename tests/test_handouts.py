"""Summaries and slides are made of what stands in the notebooks."""

import importlib.util
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from rag_lab.notebook import CLAIM_PREFIX

SCRIPT = Path(__file__).resolve().parent.parent / "notebooks" / "handouts.py"


@pytest.fixture(scope="module")
def handouts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("handouts", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def book() -> nbformat.NotebookNode:
    claim = new_output("stream", text=f"{CLAIM_PREFIX}a <b> is *found* in [x](y) &amp; `z`\nother output\n")
    picture = new_output("display_data", data={"image/png": "iVBORw0KGgo="})
    return new_notebook(
        cells=[
            new_markdown_cell("# 01 · Title\n\nThe question."),
            new_code_cell("import numpy"),
            new_markdown_cell("## First part\n\nText of it."),
            new_code_cell("draw()", outputs=[picture]),
            new_markdown_cell("A remark."),
            new_markdown_cell("Left out.", metadata={"tags": ["skip", "other"]}),
            new_markdown_cell("## What this run supports"),
            new_code_cell("claim()", outputs=[claim]),
            new_markdown_cell("## Limits\n\n- One encoder.\n\n## What to read next\n\nNotebook 02."),
        ]
    )


def test_a_page_has_opening_parts_claims_and_limits(handouts: ModuleType) -> None:
    page = handouts.page(book())
    assert page.count("<section>") == 1
    for piece in (
        "<h1>01 · Title</h1>",
        "The question.",
        "<li>First part</li>",
        "<li>One encoder.</li>",
        "Notebook 02.",
    ):
        assert piece in page
    assert "<li>a &lt;b&gt; is *found* in [x](y) &amp;amp; `z`</li>" in page
    assert "Text of it." not in page  # a page is short
    assert "<li>Limits</li>" not in page


def test_a_notebook_that_was_not_run_supports_nothing(handouts: ModuleType) -> None:
    unrun = book()
    unrun.cells[-2].outputs = []
    assert "not run yet" in handouts.page(unrun)


def test_a_tag_places_a_cell_and_the_rest_follows_from_what_it_is(handouts: ModuleType) -> None:
    places = [cell.metadata.slideshow.slide_type for cell in handouts.placed(book()).cells]
    assert places == ["slide", "skip", "slide", "subslide", "fragment", "skip", "slide", "fragment", "slide"]
