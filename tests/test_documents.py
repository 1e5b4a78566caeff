"""Reading folders. Each test writes its files, so every expected text can be checked by eye."""

import json
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from rag_lab.documents import load_folder
from rag_lab.types import Chunk, Document


def write(folder: Path, name: str, content: str | bytes) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


def read_one(folder: Path, name: str, content: str | bytes) -> Document:
    write(folder, name, content)
    [document] = load_folder(folder)
    return document


def pdf(*pages: str) -> bytes:
    """A PDF with one line of Latin text per page; an empty text gives an empty page, as a scan has no text."""
    writer = PdfWriter()
    names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in names.items()})
    fonts = DictionaryObject({NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})})
    for text in pages:
        page = writer.add_blank_page(400, 200)
        if text:
            stream = DecodedStreamObject()
            stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
            page[NameObject("/Resources")], page[NameObject("/Contents")] = fonts, writer._add_object(stream)
    buffer = BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def test_chunk_id_and_contextual_text() -> None:
    chunk = Chunk("doc", 3, "text", 0, 4)
    assert chunk.id == "doc#3"
    assert chunk.contextual_text == "text"
    assert Chunk("doc", 3, "text", 0, 4, context="About it.").contextual_text == "About it.\n\ntext"


def test_markdown_front_matter_becomes_fields_and_metadata(tmp_path: Path) -> None:
    source = (
        "---\ntitle: Rule 7\ndate: 2024-03-01\nuri: https://example.org/7\nline: motor\nversions: [1, 2]\n---\n"
        "\n  \n# Heading\n\nText with --- in it.\n"
    )
    document = read_one(tmp_path, "rules/seven.md", source)
    assert document.id == "rules/seven"
    assert document.title == "Rule 7"
    assert document.uri == "https://example.org/7"
    fields = {"date": "2024-03-01", "line": "motor", "versions": [1, 2]}
    assert document.metadata == {**fields, "file": "rules/seven.md"}
    assert document.text == "# Heading\n\nText with --- in it.\n"


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("Intro.\n\n```\n# no\n```\n\n## The *first* one\n\n# Second\n", "The first one"),
        ("Underlined\n===\n\nText.\n", "Underlined"),
        ("---\ndate: 2024-01-01\n---\nOnly text.\n", "name"),
        ("---\n---\nOnly text.\n", "name"),
        ("---\ntitle: 2024\n---\n# Heading\n", "2024"),
    ],
)
def test_markdown_title_falls_back_to_the_first_heading_then_the_file_stem(
    tmp_path: Path, source: str, title: str
) -> None:
    assert read_one(tmp_path, "name.md", source).title == title


@pytest.mark.parametrize(
    "front",
    [f"---\n{fields}\n---\n" for fields in ("title: [unclosed", "just words", "- a\n- b", "date: 2024-13-45")]
    + ["---\ntitle: never closed\n"],
)
def test_malformed_front_matter_is_named_and_skipped(tmp_path: Path, front: str) -> None:
    write(tmp_path, "bad.md", front + "Text.\n")
    write(tmp_path, "good.md", "Text.\n")
    with pytest.warns(UserWarning, match=r"1 of 2 files .* were skipped: bad\.md \(its front matter") as caught:
        documents = load_folder(tmp_path)
    assert [document.id for document in documents] == ["good"]
    assert len(caught) == 1


SCRIPTS = "سلام دنیا 👩🏽‍🚀 שלום 世界 e\u0301"


@pytest.mark.parametrize(
    ("name", "source", "title", "text"),
    [
        ("a.txt", b"\xef\xbb\xbfone\r\ntwo\rthree\nfour", "a", "one\ntwo\nthree\nfour"),
        ("a.md", b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\n\r\nText.\r\n", "T", "Text.\n"),
        ("متن.txt", SCRIPTS.encode(), "متن", SCRIPTS),
    ],
)
def test_only_line_ends_and_byte_order_mark_change(
    tmp_path: Path, name: str, source: bytes, title: str, text: str
) -> None:
    document = read_one(tmp_path, name, source)
    assert (document.title, document.text) == (title, text)


def test_html_is_visible_text_with_markdown_headings(tmp_path: Path) -> None:
    source = """<!doctype html><html><head><title> The
      page </title><style>p {color: red}</style><script>var x = 1;</script></head>
    <body><nav>Menu</nav><!-- a comment --><h1>Sick <em>leave</em></h1>
    <p>Call   by
    9:00.<br>Or write &amp; wait.</p><p hidden>secret</p><div style="display: none">secret</div>
    <noscript>secret</noscript><template>secret</template>
    <h2>List</h2><ul><li>one</li><li>two <b>bold</b></li></ul>
    <table><tr><th>Name</th><th>Phone</th></tr><tr><td>Ann</td><td>12</td></tr></table>
    <pre>def f():
    # not a heading
    return 1</pre></body></html>"""
    document = read_one(tmp_path, "page.html", source)
    assert document.title == "The page"
    assert document.text == (
        "Menu\n\n# Sick leave\n\nCall by 9:00.\nOr write & wait.\n\n## List\n\n- one\n- two bold\n\n"
        "| Name | Phone |\n| --- | --- |\n| Ann | 12 |\n\n```\ndef f():\n    # not a heading\n    return 1\n```"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        # Ends of elements that HTML lets authors leave out.
        ("<p>a<p>b<ul><li>x<li>y<ol><li>p<li>q</ol></ul>end", "a\n\nb\n\n- x\n- y\n  1. p\n  2. q\n\nend"),
        ("<header>H</header>loose <b>text</b><main>M</main><hr>end", "H\n\nloose text\n\nM\n\nend"),
        ("<p>5 * 3, a_b, <a href=u>link</a>, <code>f(x)</code>, &lt;b&gt;", "5 * 3, a_b, link, f(x), <b>"),
        ("<table><tr><td>A<td>B<tr><td colspan=2>x<br>y</table>", "| A | B |\n| --- | --- |\n| x y | |"),
        ("<blockquote><p>q</blockquote><dl><dt>T<dd>D</dl>", "> q\n\nT\n:   D"),
        ("<h2></h2><div>a<div style='visibility: hidden'>b</div></div><iframe>c</iframe>", "a"),
        ("a<br>\r\nb<img alt=x src=y>", "a\nb"),
    ],
)
def test_html_elements(tmp_path: Path, source: str, text: str) -> None:
    assert read_one(tmp_path, "page.html", source).text == text


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1255", "utf-16"])
def test_html_in_its_declared_encoding(tmp_path: Path, encoding: str) -> None:
    source = f"<meta charset={encoding}><title>שעות</title><p>שמונה עד שש".encode(encoding)
    document = read_one(tmp_path, "page.html", source)
    assert (document.title, document.text) == ("שעות", "שמונה עד שש")


def test_html_title_is_not_text_and_falls_back_to_the_heading(tmp_path: Path) -> None:
    # HTML5 allows a title without a head element around it. Without a declaration, UTF-8 is found.
    document = read_one(tmp_path, "page.html", "<title>ساعات</title><p>هشت تا شش</p>")
    assert (document.title, document.text) == ("ساعات", "هشت تا شش")
    assert read_one(tmp_path, "page.html", "<h3>Third</h3><p>x</p>").title == "Third"


def test_pdf_pages_are_joined_by_a_blank_line(tmp_path: Path) -> None:
    document = read_one(tmp_path, "two pages.pdf", pdf("First page.", "Second page."))
    assert document.text == "First page.\n\nSecond page."
    assert document.title == "two pages"


def test_unknown_and_unreadable_files_are_named_in_one_warning(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "fine")
    write(tmp_path, "b.docx", b"PK\x03\x04")
    write(tmp_path, "sub/c.txt", b"caf\xe9 in Latin-1")
    write(tmp_path, "d.pdf", b"%PDF-1.7 broken")
    write(tmp_path, "e.md", " \n\n")
    write(tmp_path, "f.pdf", pdf(""))
    with pytest.warns(UserWarning, match="^5 of 6 files in ") as caught:
        documents = load_folder(tmp_path)
    assert [document.id for document in documents] == ["a"]
    assert len(caught) == 1
    skipped = ["b.docx (not Markdown, text, HTML or PDF)", "sub/c.txt (not UTF-8 at byte 3)", "d.pdf ("]
    skipped += ["e.md (holds no text)", "f.pdf (holds no text)"]
    assert all(reason in str(caught[0].message) for reason in skipped)


def test_order_ids_and_hidden_files(tmp_path: Path) -> None:
    for name in ["z.md", "a.txt", "sub/b.md", "sub/deep/c.md", ".hidden.md", ".git/d.md", "sub/.e.md"]:
        write(tmp_path, name, "text")
    documents = load_folder(tmp_path)
    assert [document.id for document in documents] == ["a", "sub/b", "sub/deep/c", "z"]
    assert [document.metadata["file"] for document in documents] == ["a.txt", "sub/b.md", "sub/deep/c.md", "z.md"]


def test_ids_stay_apart_where_files_differ_only_by_suffix(tmp_path: Path) -> None:
    # a.md.txt without its suffix would be "a.md", which is taken.
    for name in ["a.md", "a.txt", "a.md.txt", "b.md", "sub/a.md"]:
        write(tmp_path, name, "text")
    documents = load_folder(str(tmp_path))
    assert [document.id for document in documents] == ["a.md", "a.md.txt", "a.txt", "b", "sub/a"]


def test_a_missing_or_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="it has no files"):
        load_folder(tmp_path)
    write(tmp_path, "image.png", b"\x89PNG")
    with pytest.raises(ValueError, match=r"skipped: image\.png"):
        load_folder(tmp_path)
    with pytest.raises(NotADirectoryError, match=r"image\.png"):
        load_folder(tmp_path / "image.png")


def test_front_matter_is_json_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "---\ndates: [2024-01-01, {from: 2023-05-06}]\n2020: {x: !!set {b, a}}\n---\ntext\n", encoding="utf-8"
    )
    (document,) = load_folder(tmp_path)
    assert document.metadata["dates"] == ["2024-01-01", {"from": "2023-05-06"}]
    assert document.metadata["2020"] == {"x": ["a", "b"]}
    assert json.loads(json.dumps(dict(document.metadata))) == dict(document.metadata)
