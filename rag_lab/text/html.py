"""HTML as Markdown: what a browser shows, with headings, lists, tables, quotes and fenced ``pre``.

Read by the WHATWG's rules (html5lib): optional tags, nesting and encodings. Inline markup is left out.
"""

import re
from collections.abc import Iterator
from typing import Any

from bs4 import BeautifulSoup, NavigableString, Tag
from markdownify import MarkdownConverter

from rag_lab.text.raised import lowered, raised

DEEPEST = 100  # nested blocks that are kept apart as such; a page with thousands of unclosed tags nests as deeply
HIDDEN = (
    "head, title, desc, script, style, noscript, template, iframe, object, video, audio, canvas, datalist, rt, rp"
)
STRUCK = "del, s, strike"  # no longer valid: what replaces it follows in <ins>
NOT_SHOWN = re.compile(r"display:none|visibility:hidden|text-decoration(-line)?:line-through")
SHOWN_AS_BLOCK = re.compile(r"display:(block|flex|grid|table|list-item|flow-root)")
BLOCKS = (
    "address, aside, center, details, dialog, fieldset, figure, footer, form, frameset, header, hgroup, legend, "
    "listing, main, nav, optgroup, option, plaintext, search, summary, xmp"
)
INLINE_BLOCKS = "button, input, select, textarea, meter, progress, output"  # shown apart from the text beside them
SHOWN_VALUES = {"text", "search", "tel", "url", "email", "number", "date", "time", "submit", "reset", "button"}
LAYOUT = "table, h1, h2, h3, h4, h5, h6, ul, ol, dl, pre, form, hr"  # a table with one of these is no table of data
NOTE_LINK = "a[href^='#'], [role=doc-noteref]"
MARKDOWN_BLOCK = re.compile(r"\s*(?=#{1,6}(?:\s|$)|```|~~~|(?:=+|-{2,})\s*$)")


def page(data: bytes) -> tuple[str, str]:
    """The title in a page's head, or "", and the text that it shows, as Markdown."""
    soup = BeautifulSoup(decode(data), "html5lib")
    title = soup.select_one("head > title")
    heading = " ".join(title.get_text().split()) if title else ""
    _prepare(soup)
    text = _Converter().convert_soup(soup).replace("\r", "")
    text = re.sub(r"  \n (?=\S)|[ \t]+\n", "\n", text)  # a br is "  \n"
    return heading, re.sub(r"\n{3,}", "\n\n", text).strip()


def decode(data: bytes) -> str:
    """The characters of a page. The order of trust: a byte order mark, the declared encoding, valid UTF-8, a guess.

    Labels mean what the WHATWG's Encoding Standard says: ``latin-1`` and ``ascii`` are windows-1252. A page is UTF-8
    in spite of a few invalid bytes, which become U+FFFD.
    """
    import webencodings
    from bs4.dammit import EncodingDetector

    declared = webencodings.lookup(EncodingDetector.find_declared_encoding(data, is_html=True) or "utf-8")
    if declared is None or declared.name.startswith(("utf-", "windows-1252")):  # the two that are declared by mistake
        legacy = declared if declared and declared.name == "windows-1252" else webencodings.lookup(_guess(data))
        declared = webencodings.lookup("utf-8") if _is_utf8(data) else legacy
    return str(webencodings.decode(data, declared, errors="replace")[0])  # a byte order mark comes first


def _is_utf8(data: bytes) -> bool:
    """Whether more of the bytes above 127 belong to valid UTF-8 sequences than do not."""
    text = data.decode("utf-8", errors="replace")
    invalid = text.count("\ufffd")
    return invalid == 0 or sum(character > "\x7f" for character in text) > 2 * invalid


def _guess(data: bytes) -> str:
    """The encoding of a page that declares none: windows-1252 unless there is enough text to tell another."""
    from charset_normalizer import from_bytes

    best = from_bytes(data).best() if sum(byte > 0x7F for byte in data) >= 20 else None
    return best.encoding.replace("_", "-") if best else "windows-1252"


def _prepare(soup: BeautifulSoup) -> None:
    """Leave out what is not shown, and mark what HTML says by position: raised numbers, form fields, deep blocks."""
    for tag in soup.select(f"{HIDDEN}, {STRUCK}, [hidden], dialog:not([open]), input[type=hidden]"):
        tag.extract()
    for tag in soup.select("[style]"):
        style = re.sub(r"\s", "", str(tag["style"])).lower()
        if NOT_SHOWN.search(style):
            tag.extract()
        elif SHOWN_AS_BLOCK.search(style) and tag.name in ("span", "a", "b", "i", "em", "strong", "label"):
            tag.name = "div"
    for tag in soup.select("sup, sub"):
        tag.replace_with(_raised(tag) if tag.name == "sup" else _lowered(tag))
    for tag in soup.select(INLINE_BLOCKS):
        value = str(tag.get("value", "")) if str(tag.get("type", "text")).lower() in SHOWN_VALUES else ""
        tag.insert_before(" ")
        tag.insert_after(" ")
        if tag.name == "input":
            tag.append(value)
    layouts = {id(table) for table in soup.select("table") if table.select_one(LAYOUT)}
    for part in soup.select("thead, tbody, tfoot, tr, td, th, caption"):
        if id(part.find_parent("table")) in layouts:
            part.name = "div"
    for table in soup.select("table"):
        table.name = "div" if id(table) in layouts else "table"
    for heading in soup.select("h1, h2, h3, h4, h5, h6"):
        if not heading.get_text(strip=True):
            heading.extract()
    for tag, depth in list(_depths(soup)):
        known = hasattr(_Converter, f"convert_{tag.name}") or re.fullmatch("h[1-6]", tag.name)
        if depth > DEEPEST and known and tag.name != "br":
            tag.insert_before(soup.new_tag("br"))
            tag.insert_after(soup.new_tag("br"))
        if not known or (depth > DEEPEST and tag.name != "br"):
            tag.unwrap()
    soup.smooth()


def _depths(soup: BeautifulSoup) -> Iterator[tuple[Tag, int]]:
    """Every tag and how many tags contain it."""
    depths = {id(soup): 0}
    for tag in soup.find_all(True):
        depths[id(tag)] = depths[id(tag.parent)] + 1
        yield tag, depths[id(tag)]


def _text_before(tag: Tag) -> str:
    before = tag.find_previous(string=True)
    return str(before)[-20:] if before else ""


def _raised(tag: Tag) -> str:
    return raised(tag.get_text().strip(), _text_before(tag), tag.select_one(NOTE_LINK) is not None)


def _lowered(tag: Tag) -> str:
    after = tag.next_sibling
    return lowered(
        tag.get_text().strip(), _text_before(tag), str(after) if isinstance(after, NavigableString) else ""
    )


class _Converter(MarkdownConverter):
    """markdownify's rules for blocks; tables with their merged cells, and text that reads as on the page."""

    class Options:
        heading_style = "atx"
        bullets = "-"
        escape_asterisks = False
        escape_underscores = False
        wrap = True  # joins the lines of a paragraph
        wrap_width = None
        strip = ("a", "b", "code", "em", "i", "img", "kbd", "samp", "strong")

    convert_hr = MarkdownConverter.convert_br  # type: ignore[attr-defined]

    def escape(self, text: str, parent_tags: set[str]) -> str:
        """A line that Markdown would read as a heading or a fence begins with a backslash."""
        found = MARKDOWN_BLOCK.match(text)
        return f"{found[0]}\\{text[found.end() :]}" if found else text

    def convert_table(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """A table in GitHub's form, in which a cell over several rows or columns is repeated in each."""
        caption = el.find("caption")
        rows = [row for row in _grid(el) if any(row)]
        if not rows:
            return ""
        width = max(map(len, rows))
        lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in rows]
        lines.insert(1, f"| {' | '.join(['---'] * width)} |")
        above = " ".join(caption.get_text().split()) + "\n\n" if caption else ""
        return f"\n\n{above}" + "\n".join(lines) + "\n\n"


for name in BLOCKS.split(", "):
    setattr(_Converter, f"convert_{name}", MarkdownConverter.convert_div)  # type: ignore[attr-defined]


def _grid(table: Tag) -> list[list[str]]:
    """The text of every cell, row by row."""
    cells: dict[tuple[int, int], str] = {}
    rows = table.find_all("tr")
    for r, row in enumerate(rows):
        c = 0
        for cell in row.find_all(["td", "th"], recursive=False):
            while (r, c) in cells:
                c += 1
            for breaking in cell.find_all(["br", "p", "div"]):
                breaking.insert_before(" ")
            text = " ".join(cell.get_text().split()).replace("|", r"\|")
            down, across = _span(cell, "rowspan") or len(rows), _span(cell, "colspan") or 1
            alone = len(row.find_all(["td", "th"], recursive=False)) == 1  # a note over the whole width
            repeated = ["" if alone and j else text for j in range(across)]
            cells |= {(r + i, c + j): repeated[j] for i in range(min(down, len(rows) - r)) for j in range(across)}
            c += across
    width = 1 + max((c for _, c in cells), default=0)
    return [[cells.get((r, c), "") for c in range(width)] for r in range(len(rows))]


def _span(cell: Tag, name: str) -> int:
    """A cell's rows or columns; 0 is "to the end"."""
    value: Any = str(cell.get(name, "1")).strip()
    return min(int(value), 1000) if value.isdecimal() else 1
