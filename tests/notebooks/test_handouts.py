"""Summaries and slides are made of what stands in the notebooks."""

import importlib.util
from pathlib import Path
from types import ModuleType

import nbconvert
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from rag_lab.notebook import CLAIM_PREFIX

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
SCRIPT = FOLDER / "handouts.py"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


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


def test_a_tag_puts_a_cell_on_a_slide_and_a_cell_without_one_is_left_out(handouts: ModuleType) -> None:
    tagged = book()
    for cell, tag in zip(tagged.cells, ("slide", "skip", "fragment", "other", "notes"), strict=False):
        cell.metadata["tags"] = ["keep", tag]
    places = [cell.metadata.slideshow.slide_type for cell in handouts.placed(tagged).cells]
    assert places == ["slide", "skip", "fragment", "skip", "notes", *["skip"] * (len(tagged.cells) - 5)]


def test_a_slide_shows_short_code_and_of_figures_claims_and_long_code_the_output(handouts: ModuleType) -> None:
    shown = new_code_cell("\n".join(["x = 1"] * handouts.CODE_LINES))
    cells = [shown, new_code_cell(shown.source + "\nx"), *book().cells]
    code = [cell for cell in handouts.placed(new_notebook(cells=cells)).cells if cell.cell_type == "code"]
    # Short, one line too long, the imports; a figure, a claim.
    assert [cell.metadata.transient["remove_source"] for cell in code] == [False, True, False, True, True]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_slides_of_a_notebook_are_a_talk(handouts: ModuleType, path: Path) -> None:
    """From the title by way of figures to what the run supports, and not the whole notebook."""
    cells = handouts.placed(nbformat.read(path, as_version=4)).cells
    placed = [(cell, place) for cell in cells if (place := cell.metadata.slideshow.slide_type) != "skip"]
    assert placed[0][1] == "slide"
    assert placed[0][0].source.startswith("# ")
    assert 6 <= sum(place in ("slide", "subslide") for _, place in placed) <= 20
    assert sum("image/png" in out.get("data", {}) for cell, _ in placed for out in cell.get("outputs", [])) >= 3
    texts = [out.get("text", "") for out in placed[-1][0].outputs]
    assert any(text.startswith(CLAIM_PREFIX) for text in texts)


def test_slides_are_nbconverts_and_hold_only_what_is_placed(handouts: ModuleType) -> None:
    tagged = book()
    for i, tag in ((0, "slide"), (2, "slide"), (3, "subslide")):
        tagged.cells[i].metadata["tags"] = [tag]
    html, _ = nbconvert.SlidesExporter().from_notebook_node(handouts.placed(tagged))
    body = html[html.index('<div class="slides">') :]
    # Each slide is a section of sections: the title; the first part, with its figure below.
    assert body.count("<section") == 5
    assert "Text of it." in body
    assert "draw()" not in body
    assert "A remark." not in body


def test_scripts_of_slides_come_from_a_folder_that_has_them_all(handouts: ModuleType, tmp_path: Path) -> None:
    assert handouts.scripts(None) == {}
    (tmp_path / "reveal.js").mkdir()
    with pytest.raises(FileNotFoundError, match=r"lacks requirejs/require\.js, jquery/dist/jquery\.min\.js: npm"):
        handouts.scripts(tmp_path)
    for path in ("requirejs/require.js", "jquery/dist/jquery.min.js"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    assert handouts.scripts(tmp_path)["reveal_url_prefix"] == (tmp_path / "reveal.js").as_uri()
