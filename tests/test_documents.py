"""Reading folders. Each test writes its files, so every expected text can be checked by eye."""

import json
import re
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from rag_lab.chunking import chunk_headings, chunk_sentences
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
    """A PDF with one line of Latin text, or a content stream, per page; an empty one gives a page without text."""
    writer = PdfWriter()
    names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in names.items()})
    fonts = DictionaryObject({NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})})
    for text in pages:
        page = writer.add_blank_page(400, 200)
        if text:
            stream = DecodedStreamObject()
            content = text if text.startswith("BT ") else f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
            stream.set_data(content.encode())
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
    ("source", "title", "text"),
    [
        # CommonMark: --- is a thematic break where no map follows.
        ("---\n\n# Rules\n\nkind: be\n\n---\nMore.\n", "Rules", "---\n\n# Rules\n\nkind: be\n\n---\nMore.\n"),
        (
            "---\nWelcome to the club\n---\n\nBe kind.\n",
            "Welcome to the club",
            "---\nWelcome to the club\n---\n\nBe kind.\n",
        ),
        ("---\n- a\n- b\n---\nText.\n", "a", "---\n- a\n- b\n---\nText.\n"),
        ("---\ntitle: never closed\n", "a", "---\ntitle: never closed\n"),
        # A map that is not valid YAML is read line by line.
        ("---\ntitle: Part 2: The return\n---\nText.\n", "Part 2: The return", "Text.\n"),
        ("---\ntitle: [unclosed\ndate: 2024-13-45\n---\nText.\n", "[unclosed", "Text.\n"),
        ('---\ntitle: "A" is it\ntags:\n  - x\n---\nText.\n', 'A" is it', "Text.\n"),
        # Hugo's TOML.
        ('+++\ntitle = "Rules"\ndate = 2024-03-01\n+++\n\nBe kind.\n', "Rules", "Be kind.\n"),
        ("+++\nnot toml\n+++\nText.\n", "a", "+++\nnot toml\n+++\nText.\n"),
    ],
)
def test_markdown_that_begins_with_a_rule(tmp_path: Path, source: str, title: str, text: str) -> None:
    document = read_one(tmp_path, "a.md", source)
    assert (document.title, document.text) == (title, text)


def test_yaml_aliases_are_not_written_out(tmp_path: Path) -> None:
    # Each line is ten of the line above: 10^9 values if they were written out.
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    document = read_one(tmp_path, "a.md", "---\n" + "\n".join(lines) + "\n---\nText.\n")
    assert document.text == "Text.\n"
    assert document.metadata["a0"] == "&a0 [x]"


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
        ("<table><tr><td>A<td>B<tr><td colspan=2>x<br>y</table>", "| A | B |\n| --- | --- |\n| x y |  |"),
        ("<blockquote><p>q</blockquote><dl><dt>T<dd>D</dl>", "> q\n\nT\n:   D"),
        ("<h2></h2><div>a<div style='visibility: hidden'>b</div></div><iframe>c</iframe>", "a"),
        ("a<br>\r\nb<img alt=x src=y>", "a\nb"),
    ],
)
def test_html_elements(tmp_path: Path, source: str, text: str) -> None:
    assert read_one(tmp_path, "page.html", source).text == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        # Raised and lowered: powers, notes, indices.
        ("About 10<sup>6</sup> cells, 2<sup>61</sup>", "About 10⁶ cells, 2⁶¹"),
        ("5 m<sup>2</sup>, 3 cm<sup>3</sup>, E = mc<sup>2</sup>", "5 m², 3 cm³, E = mc²"),
        ("10<sup>-3</sup>, x<sup>n</sup>, x<sup>n+1</sup>, e<sup>ab+1</sup>", "10⁻³, xⁿ, xⁿ⁺¹, e^ab+1"),
        (
            "It costs 450<sup>1</sup> euros, as told<sup>4</sup><sup>5</sup>",
            "It costs 450 [1] euros, as told [4] [5]",
        ),
        ("In 2021<sup>6</sup> and 1.10<sup>2</sup>", "In 2021 [6] and 1.10 [2]"),
        ('10<sup><a href="#n6">6</a></sup> seats<sup class=reference>[3]</sup>', "10 [6] seats[3]"),
        ("the 1<sup>st</sup>, M<sup>me</sup>, x<sup>*</sup>, †<sup>†</sup>", "the 1st, Mme, x*, ††"),
        ("H<sub>2</sub>O, log<sub>2</sub>8, 101<sub>2</sub>", "H2O, log₂8, 101₂"),
        # What is struck is no longer valid.
        ("Notice is <del>30</del><ins>14</ins> days, <s>5</s> 6 or <strike>7</strike>8", "Notice is 14 days, 6 or 8"),
        ("<span style='text-decoration: line-through'>30</span> 14", "14"),
        # Shown apart.
        ("<select><option>Red<option>Blue</select>", "Red\n\nBlue"),
        ("<fieldset><legend>Shipping</legend>free</fieldset>", "Shipping\n\nfree"),
        ("<label>Name</label><input value=Ann><label>Age</label><input type=hidden value=7>", "Name Ann Age"),
        ("<button>Go</button><button>Stop</button>3<progress>4</progress>", "Go Stop 3 4"),
        ("a<span style='display: block'>b</span>c", "a\n\nb\n\nc"),
        ("<pre>a = 1<br>b = 2</pre>", "```\na = 1\nb = 2\n```"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rt>ji</rt></ruby>", "漢字"),
        ("<dialog>closed</dialog><dialog open>open</dialog><datalist><option>no</datalist>", "open"),
        # Text that Markdown would take for a heading.
        ("<p># of seats: 5<p>Total<br>-----<p>``` is code", "\\# of seats: 5\n\nTotal\n\\-----\n\n\\``` is code"),
        # Tables: merged cells, paragraphs in cells, bars, a caption, a foot, tables that only lay the page out.
        ("<table><tr><td><p>Ann</p><td><p>42</p></table>", "| Ann | 42 |\n| --- | --- |"),
        (
            "<table><caption>Fees</caption><thead><tr><th>Item<th>Price<tbody><tr><td rowspan=2>Card<td>3<tr><td>4"
            "<tfoot><tr><td>a|b<td>7</table>",
            "Fees\n\n| Item | Price |\n| --- | --- |\n| Card | 3 |\n| Card | 4 |\n| a\\|b | 7 |",
        ),
        (
            "<table><tr><td colspan=2>a<td>b<tr><td>1<td>2<td>3</table>",
            "| a | a | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |",
        ),
        ("<table><tr><td>a<table><tr><td>x<td>y</table><td>b</table>", "a\n\n| x | y |\n| --- | --- |\n\nb"),
        ("<table><tr><td><h2>H</h2>t<td><ul><li>u</ul></table>", "## H\n\nt\n\n- u"),
    ],
)
def test_html_reads_as_a_browser_shows_it(tmp_path: Path, source: str, text: str) -> None:
    assert read_one(tmp_path, "page.html", source).text == text


@pytest.mark.parametrize("tag", ["<p>", "<div>", "<li>", "<b>", "<h1>", "<td>", "<blockquote>", "<font>", "<ul><li>"])
def test_a_thousand_tags_that_are_never_closed(tmp_path: Path, tag: str) -> None:
    text = read_one(tmp_path, "page.html", "".join(f"{tag}Line {i}\n" for i in range(1000))).text
    assert [word for word in text.split() if word.isdecimal()] == [str(i) for i in range(1000)]


def test_a_drawing_has_no_say_in_the_title(tmp_path: Path) -> None:
    document = read_one(tmp_path, "page.html", "<svg><title>icon</title><text>x</text></svg><h1>Page</h1>")
    assert (document.title, document.text) == ("Page", "x\n\n# Page")


GERMAN = "Die Straße ist größer, das Café öffnet um 9."


@pytest.mark.parametrize(
    ("source", "text"),
    [
        # The Encoding Standard: these labels are windows-1252; utf-16 in a meta is UTF-8.
        (b"<meta charset=iso-8859-1><p>5\x80 \x96 \x93ok\x94", "5€ – “ok”"),
        (b"<meta charset=us-ascii><p>caf\xe9", "café"),
        ("<meta charset=gb2312><p>镕".encode("gbk"), "镕"),
        ("<meta charset=utf-16><p>Größe".encode(), "Größe"),
        ('<meta http-equiv=Content-Type content="text/html; charset=windows-1251"><p>Да'.encode("cp1251"), "Да"),
        # A wrong or no label: valid UTF-8 is UTF-8; else a guess, which for a short text is windows-1252.
        ("<meta charset=latin1><p>Größe €".encode(), "Größe €"),
        ("<meta charset=utf-8><p>café 5€".encode("cp1252"), "café 5€"),
        (b"<p>caf\xe9 5\x80", "café 5€"),
        (f"<p>{'Привет, мир. Как дела? ' * 9}".encode("cp1251"), ("Привет, мир. Как дела? " * 9).strip()),
    ],
)
def test_html_encodings(tmp_path: Path, source: bytes, text: str) -> None:
    assert read_one(tmp_path, "page.html", source).text == text


@pytest.mark.parametrize("label", ["", "<meta charset=utf-8>"])
def test_invalid_bytes_harm_themselves_alone_and_are_named(tmp_path: Path, label: str) -> None:
    with pytest.warns(UserWarning, match=r"read as \ufffd: page\.html \(2\)"):
        text = read_one(tmp_path, "page.html", f"{label}<p>{GERMAN} {GERMAN} ".encode() + b"x\x93 \xc3").text
    assert text == f"{GERMAN} {GERMAN} x\ufffd \ufffd"


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


def lines_of_text(*lines: str) -> str:
    """A page's content stream."""
    return "BT /F1 12 Tf 20 180 Td " + " ".join(f"({line}) Tj 0 -14 Td" for line in lines) + " ET"


@pytest.mark.parametrize(
    ("pages", "text"),
    [
        (
            [["Handbook", "The night code of the", "Page 1 of 2"], ["Handbook", "door is 4711.", "Page 2 of 2"]],
            "The night code of the\ndoor is 4711.",
        ),
        (
            [["7", "Rules.", "Be kind."], ["8", "Fees.", "None."], ["9", "End."]],
            "Rules.\nBe kind.\n\nFees.\nNone.\n\nEnd.",
        ),
        # Neither the same line nor a page number; a page of nothing else stays.
        ([["Fees 2023", "A is 5."], ["Fees 2024", "B is 6."]], "Fees 2023\nA is 5.\n\nFees 2024\nB is 6."),
        ([["Total 5"], ["Total 5"]], "Total 5\n\nTotal 5"),
    ],
)
def test_headers_and_footers_of_a_pdf_are_no_text(tmp_path: Path, pages: list[list[str]], text: str) -> None:
    assert read_one(tmp_path, "a.pdf", pdf(*(lines_of_text(*lines) for lines in pages))).text == text


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        ("(It costs 450) Tj 5 Ts /F1 7 Tf (1) Tj 0 Ts /F1 12 Tf ( euros) Tj", "It costs 450 [1] euros"),
        ("(about 10) Tj /F1 7 Tf 50 4 Td (6) Tj /F1 12 Tf 5 -4 Td ( cells) Tj", "about 10⁶ cells"),
        ("(log) Tj /F1 7 Tf 17 -3 Td (2) Tj /F1 12 Tf 5 3 Td (8 = 3) Tj", "log2 8 = 3"),
    ],
)
def test_raised_and_lowered_numbers_of_a_pdf(tmp_path: Path, stream: str, text: str) -> None:
    assert read_one(tmp_path, "a.pdf", pdf(f"BT /F1 12 Tf 20 100 Td {stream} ET")).text == text


def test_chunks_of_a_pdf_name_their_page(tmp_path: Path) -> None:
    document = read_one(tmp_path, "a.pdf", pdf("First page.", "Second page."))
    chunks = chunk_sentences(document)
    assert [chunk.section_path for chunk in chunks] == [("page 1",), ("page 2",)]
    assert chunks[0].metadata == {"file": "a.pdf"}


def test_word_documents_are_read_with_headings_lists_and_tables(tmp_path: Path) -> None:
    body = (
        '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Leave</w:t></w:r></w:p>'
        "<w:p><w:r><w:t>28 days.</w:t></w:r></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Day</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>9</w:t></w:r></w:p></w:tc>"
        "</w:tr></w:tbl>"
    )
    space, kind = "http://schemas.openxmlformats.org", "application/vnd.openxmlformats"
    main = f"{kind}-officedocument.wordprocessingml.document.main+xml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{space}/package/2006/content-types">'
        f'<Default Extension="rels" ContentType="{kind}-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{space}/package/2006/relationships"><Relationship Id="r1" Type='
        f'"{space}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{space}/wordprocessingml/2006/main"><w:body>{body}</w:body>'
        "</w:document>",
    }
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    document = read_one(tmp_path, "rules.docx", buffer.getvalue())
    assert document.title == "Leave"
    assert document.text == "# Leave\n\n28 days.\n\n| Day | 9 |\n| --- | --- |"


def test_plain_text_has_no_headings(tmp_path: Path) -> None:
    mail = "Hi team,\nwe are closed on Friday.\n-- \nDana\nFacilities\n-----\n# of keys: 5\n"
    document = read_one(tmp_path, "mail.txt", mail)
    assert [chunk.section_path for chunk in chunk_headings(document)] == [()]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a.csv", "a table: save it as an HTML page"),
        ("a.pptx", "export it as PDF"),
        ("a.ipynb", "export it as Markdown or HTML"),
        ("a.epub", "convert it to HTML or PDF"),
        ("a.png", "not Markdown, text, HTML, Word or PDF"),
    ],
)
def test_files_that_are_not_read_are_named_with_what_to_do(tmp_path: Path, name: str, remedy: str) -> None:
    write(tmp_path, name, b"x")
    write(tmp_path, "b.txt", "text")
    with pytest.warns(UserWarning, match=re.escape(f"{name} ({remedy})")):
        load_folder(tmp_path)


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
    skipped = ["b.docx (File is not a zip file)", "sub/c.txt (not UTF-8 at byte 3)", "d.pdf ("]
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
