"""Chunkers: worked examples, and the properties that hold for any text in any script.

``check`` compares every chunk with the text it came from (the idea of the helper in chonkie's tests, with offsets
that must be exact). Cluster bounds come from the ``regex`` package's ``\\X``, words from ``str.split``.
"""

import functools
from dataclasses import replace
from itertools import pairwise
from string import ascii_lowercase
from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.chunking import (
    CHUNKERS,
    chunk_chars,
    chunk_code,
    chunk_corpus,
    chunk_headings,
    chunk_paragraphs,
    chunk_sentences,
    chunk_tokens,
    chunk_words,
    merge_adjacent,
    slice_chunk,
)
from rag_lab.types import Chunk, Document

TWELVE = "one two three four five six seven eight nine ten eleven twelve"


BY_CHARACTERS = ["raw", "by_sentences", "by_paragraphs", "by_headings", "by_code"]  # whose size is in characters


def document(text: str, **fields: Any) -> Document:
    return Document("doc", text, **fields)


def texts(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def cluster_bounds(text: str) -> set[int]:
    return {match.start() for match in regex.finditer(r"\X", text)} | {len(text)}


def check(text: str, chunks: list[Chunk]) -> None:
    """What holds for every chunker, size and overlap."""
    bounds, covered = cluster_bounds(text), 0
    for index, chunk in enumerate(chunks):
        assert chunk.index == index
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert {chunk.start, chunk.end} <= bounds
        assert not text[covered : chunk.start].strip()
        covered = max(covered, chunk.end)
    assert not text[covered:].strip()
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end


# Tokenizers that need no download: bytes (a cluster is many tokens), WordPiece (unknown words, stripped accents and
# dropped control characters), Unigram with Metaspace (SentencePiece's form).


@functools.cache
def tokenizer(kind: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    if kind == "bytes":
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        core = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        core.decoder = decoders.ByteLevel()
    elif kind == "wordpiece":
        pieces = ["[UNK]", *".!?", *ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase)]
        core = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
        core.normalizer = normalizers.BertNormalizer()
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        pieces = ["<unk>", "▁", "▁the", "ing", *ascii_lowercase, *".!?"]
        core = Tokenizer(models.Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=0))
        core.normalizer = normalizers.NFKC()
        core.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=8)


KINDS = ["bytes", "wordpiece", "unigram"]
# Every strategy; by_tokens once for each kind of tokenizer.
NAMES = [name for name in CHUNKERS if name != "by_tokens"] + [f"by_tokens {kind}" for kind in KINDS]
every_chunker = pytest.mark.parametrize("name", NAMES)


def cut_by(name: str, text: str, size: Any, overlap: Any = 0) -> list[Chunk]:
    strategy, _, kind = name.partition(" ")
    options = {"tokenizer": tokenizer(kind)} if kind else {}
    return CHUNKERS[strategy](document(text), size=size, overlap=overlap, **options)


# Pieces that break careless code: clusters of several characters, marks without a base, all kinds of line ends and
# white space, sentence marks of many scripts, Markdown and Python structure.
# fmt: off
WHITE = [" ", "  ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u2029", "\u3000", "\x1c"]
CLUSTERS = [
    "e\u0301", "\u0301", "a\u0327\u0323", "👩🏽‍🚀", "🇩🇪", "🇫", "👨‍👩‍👧‍👦", "❤️",
    "क्षि", "한", "ก็", "\u0600", "\u200d", "\u200f", "\x00",
]
WORDS = ["a", "bc", "Word", "שלום", "יְהִי", "عَرَبِي", "می‌شود", "Привет", "你好", "世界", "手ー"]
SIGNS = [". ", ".", "? ", "?!", "…", "。", "؟", "۔", "।", "！”", "“", '"', "{", "(", "}\n"]
DOTS = ["Dr. ", "3.85", "e.g. ", "U.S. "]
MARKDOWN = ["# ", "\n# H\n", "\n## I\n\n", "\n===\n", "\n```\n", "- ", "\n1. ", "| "]
PYTHON_LINES = ["def f():\n    return 1\n", "class A:\n", "    def g(self): pass\n", "@dec\n"]
# fmt: on
PIECES = st.sampled_from([*WHITE, *CLUSTERS, *WORDS, *SIGNS, *DOTS, *MARKDOWN, *PYTHON_LINES])
TEXTS = st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=60))
SIZES = st.integers(1, 40).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))
run = settings(max_examples=60, deadline=None)


@every_chunker
@run
@given(text=TEXTS, size_and_overlap=SIZES)
def test_invariants(name: str, text: str, size_and_overlap: tuple[int, int]) -> None:
    size, overlap = size_and_overlap
    chunks = cut_by(name, text, size, overlap)
    check(text, chunks)
    if name in BY_CHARACTERS:
        assert all(len(chunk.text) <= size or len(regex.findall(r"\X", chunk.text)) == 1 for chunk in chunks)
    # The overlap of these is in words. str.split counts fewer where a script has no spaces, never more.
    if name in BY_CHARACTERS[1:]:
        assert all(len(text[b.start : a.end].split()) <= overlap for a, b in pairwise(chunks))


@every_chunker
@run
@given(text=TEXTS)
def test_one_unit_per_chunk(name: str, text: str) -> None:
    chunks = cut_by(name, text, None)
    check(text, chunks)
    assert all(before.end <= after.start for before, after in pairwise(chunks))


@every_chunker
@run
@given(text=TEXTS, size=st.integers(1, 40))
def test_without_overlap_the_chunks_and_the_white_space_between_them_are_the_document(
    name: str, text: str, size: int
) -> None:
    rebuilt, end = [], 0
    for chunk in cut_by(name, text, size):
        assert chunk.start >= end
        rebuilt += [text[end : chunk.start], chunk.text]
        end = chunk.end
    assert "".join(rebuilt) + text[end:] == text


@run
@given(text=st.text("ab é\n", max_size=80), size_and_overlap=SIZES)
def test_character_windows_are_full_and_share_exactly_the_overlap(
    text: str, size_and_overlap: tuple[int, int]
) -> None:
    # Without clusters of several characters, and with no window of white space alone, nothing shortens a window.
    size, overlap = size_and_overlap
    text = "x" + regex.sub(r"\s+", "y", text)
    chunks = chunk_chars(document(text), size, overlap)
    assert all(len(chunk.text) == size for chunk in chunks[:-1])
    assert all(a.end - b.start == overlap for a, b in pairwise(chunks))


@run
@given(text=st.text("ab \n", max_size=120), size_and_overlap=SIZES)
def test_word_windows_are_full_and_share_exactly_the_overlap(text: str, size_and_overlap: tuple[int, int]) -> None:
    size, overlap = size_and_overlap
    chunks = chunk_words(document(text), size, overlap)
    assert all(len(chunk.text.split()) == size for chunk in chunks[:-1])
    shared = [text[b.start : a.end].split() for a, b in pairwise(chunks)]
    assert all(len(words) == overlap for words in shared)


@pytest.mark.parametrize("kind", KINDS)
@run
@given(text=TEXTS, size_and_overlap=SIZES)
def test_token_windows_hold_and_share_no_more_tokens_than_requested(
    kind: str, text: str, size_and_overlap: tuple[int, int]
) -> None:
    size, overlap = size_and_overlap
    encoded = tokenizer(kind)(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    offsets = [(start, end) for start, end in encoded["offset_mapping"] if end > start]

    def tokens(start: int, end: int) -> int:
        return sum(start <= a and b <= end for a, b in offsets)

    chunks = chunk_tokens(document(text), size, overlap, tokenizer(kind))
    bounds = cluster_bounds(text)
    for chunk in chunks:
        inside = [start for start, end in offsets if chunk.start <= start and end <= chunk.end]
        in_one_cluster = not bounds & set(range(min(inside, default=0) + 1, max(inside, default=0) + 1))
        assert len(inside) <= size or in_one_cluster
    for before, after in pairwise(chunks):
        assert tokens(after.start, before.end) <= overlap


@every_chunker
@pytest.mark.parametrize("text", ["", " ", "\n\n \t\u3000\r\n", "\x1c"])
def test_blank_text_gives_no_chunks(name: str, text: str) -> None:
    assert cut_by(name, text, 5, 1) == []
    assert cut_by(name, text, None) == []


@every_chunker
@pytest.mark.parametrize(
    ("size", "overlap", "message"),
    [
        *((size, 0, f"size is {size!r}") for size in (0, -3, 5.0, "5", True)),
        *((5, overlap, f"overlap is {overlap!r}") for overlap in (-1, 1.5, None)),
        *((5, overlap, rf"overlap \({overlap}\) must be smaller than size \(5\)") for overlap in (5, 6)),
        (None, 3, "overlap to 0"),
    ],
)
def test_impossible_sizes_and_overlaps_raise(name: str, size: Any, overlap: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cut_by(name, "Some text.", size, overlap)


@every_chunker
def test_an_unbroken_run_and_a_giant_cluster_end(name: str) -> None:
    for text in ["x" * 100_000, "." * 20_000, "a" + "\u0301" * 20_000, "👩🏽‍🚀" * 5_000]:
        check(text, cut_by(name, text, 1000, 999))


def test_a_run_without_a_break_is_split_hard() -> None:
    for name in BY_CHARACTERS:
        assert [len(c.text) for c in cut_by(name, "x" * 100_000, 1500)] == [1500] * 66 + [1000]


# Examples

FOUR = "Aa bb cc. Dd ee. Ff gg hh iii. Jj."  # the first two: 16 characters; the last two, and ee. Ff … iii.: 17
PARAGRAPHS = "\n\none\nstill one\n \t\ntwo\r\n\r\nthree\n\n\n"

# fmt: off
EXAMPLES = [
    (chunk_words, TWELVE, {"size": 5, "overlap": 2},
     ["one two three four five", "four five six seven eight", "seven eight nine ten eleven", "ten eleven twelve"]),
    # Scripts without spaces have one word per character.
    (chunk_words, "你好。iPhone 手机ー", {"size": None}, ["你", "好。", "iPhone", "手", "机ー"]),
    (chunk_words, "می‌شود گفت", {"size": None}, ["می‌شود", "گفت"]),
    # "a", then a space with an acute accent, then "b": three clusters, none cut, so the accent takes its space along.
    (chunk_words, "a \u0301b", {"size": 1}, ["a", " \u0301b"]),
    # Characters are cut anywhere but in a cluster.
    (chunk_chars, "abcdefgh", {"size": 4, "overlap": 2}, ["abcd", "cdef", "efgh"]),
    (chunk_chars, "ab cd  ef", {"size": 3, "overlap": 0}, ["ab ", "cd ", " ef"]),
    # Each astronaut is four characters: two would be eight, so one of size 5 leaves a character unused.
    (chunk_chars, "👩🏽‍🚀👩🏽‍🚀a", {"size": 5, "overlap": 0}, ["👩🏽‍🚀", "👩🏽‍🚀a"]),
    (chunk_chars, "e\u0301" * 3, {"size": 3, "overlap": 1}, ["e\u0301"] * 3),
    # Sentences fill a size in characters with an overlap in words; one character less leaves no room for "ee.".
    (chunk_sentences, FOUR, {"size": 17}, ["Aa bb cc. Dd ee.", "Ff gg hh iii. Jj."]),
    (chunk_sentences, FOUR, {"size": 17, "overlap": 1}, ["Aa bb cc. Dd ee.", "ee. Ff gg hh iii.", "iii. Jj."]),
    (chunk_sentences, FOUR, {"size": 16, "overlap": 1}, ["Aa bb cc. Dd ee.", "Ff gg hh iii.", "iii. Jj."]),
    # A long sentence is cut between words.
    (chunk_sentences, TWELVE, {"size": 20, "overlap": 1},
     ["one two three four", "four five six seven", "seven eight nine ten", "ten eleven twelve"]),
    # Blank lines separate paragraphs.
    (chunk_paragraphs, PARAGRAPHS, {}, ["one\nstill one", "two", "three"]),
    (chunk_paragraphs, PARAGRAPHS, {"size": 18}, ["one\nstill one", "two\r\n\r\nthree"]),
    (chunk_paragraphs, "Aa bb. Cc dd.\n\nEe.", {"size": 8}, ["Aa bb.", "Cc dd.", "Ee."]),
    # WordPiece of single letters: a token per letter, so 4 tokens from "ab cd ef" are "ab cd".
    (chunk_tokens, "ab cd ef", {"size": 4, "tokenizer": "wordpiece"}, ["ab cd", "ef"]),
    (chunk_tokens, "ab cd ef", {"size": 4, "overlap": 2, "tokenizer": "wordpiece"}, ["ab cd", "cd ef"]),
    # A token per byte, spaces included: "ab c" are 4, and a chunk does not begin with white space.
    (chunk_tokens, "ab cd ef", {"size": 4, "tokenizer": "bytes"}, ["ab c", "d ef"]),
    # The family is 25 bytes, so 25 tokens, in one cluster, which stays whole.
    (chunk_tokens, "a👨‍👩‍👧‍👦b", {"size": 3, "tokenizer": "bytes"}, ["a", "👨‍👩‍👧‍👦", "b"]),
    # BERT's normalizer drops control characters and accents: they go with the token before.
    (chunk_tokens, "\x01a\x02 e\u0301b", {"size": 1, "tokenizer": "wordpiece"}, ["\x01a\x02", "e\u0301", "b"]),
]

SENTENCES = {
    "abbreviations": ["Dr. Smith met Prof. J. R. R. Lee, e.g. The Lee, at 5 p.m. sharp.", "They spoke."],
    "may end a sentence": ["He is at Lamp Inc. in the U.S. and Acme Ltd. Bonn.", "It is in the U.S.", "It is big."],
    "numbers": ["It has 3.85 million people on 891.7 km².", "In 1990.", "See No. 5 and Fig. 2.", "No.", "He came."],
    "quotes": ['He said "Stop."', "“Why?” she asked.", "(See page 3.)", "‘Yes!’", "Then he went."],
    "German quotes": ["„Halt!“ rief er, z. B. laut.", "»Nein.«", "Er ging."],
    "runs": ["What?!", "No way!!!", "Yes... maybe.", "Wait…", "Then? !", "Done."],
    "web addresses": ["See https://example.org/a.b?c=d!e for v1.2.3 of the file a.txt.", "Next."],
    "notes and emphasis": ["It grew.[12]", "**Bold.**", "_Also._", "End."],
    "Russian": ["Он живёт на ул. Мира, д. 5.", "Кто там?", "Никого!"],
    "Hebrew": ["ד״ר כהן גר כאן.", "מה שלומך?", "״טוב.״", "תודה!"],
    "Persian and Arabic": ["سلام.", "حال شما چطور است؟", "خوبم۔", "کیف؟!", "۳.۵ درصد است."],
    "Devanagari": ["यह एक है।", "यह दो है॥", "क्या?"],
}
EXAMPLES += [(chunk_sentences, " ".join(parts), {}, parts) for parts in SENTENCES.values()]
CHINESE = ["你好。", "今天天气好吗？", "他说：“走吧。”", "然后走了！", "“好？”", "对?", "数は３．５です．", "次。"]
EXAMPLES += [(chunk_sentences, "".join(CHINESE), {}, CHINESE)]  # no spaces
LINES = (  # lines end a sentence only at blank lines, headings, items and rows
    "# A title\n|A wrapped\nsentence. |Next\n\n|no mark\n|- item one\n|- item two\n  wrapped\n|1. First. |Second\n"
    "|~a~b~\n|~c~d~"
)
EXAMPLES += [
    (chunk_sentences, LINES.replace("|", "").replace("~", "|"), {},
     [line.strip().replace("~", "|") for line in LINES.split("|")])
]
# fmt: on


@pytest.mark.parametrize(("chunker", "text", "options", "expected"), EXAMPLES)
def test_examples(chunker: Any, text: str, options: dict[str, Any], expected: list[str]) -> None:
    if chunker is chunk_tokens:
        options = options | {"tokenizer": tokenizer(options["tokenizer"])}
    assert texts(chunker(document(text), **options)) == expected


# Sections


LEAVE = """Preface.

# Leave

## Sick days

Call by nine.

Bring a note.

```
# no heading
```

Vacation *planning*
-------------------

Thirty days. ## no heading

# Pay #
Monthly.
"""


def test_headings_follow_markdown_structure() -> None:
    chunks = chunk_headings(document(LEAVE))
    paths = [(), ("Leave", "Sick days"), ("Leave", "Vacation planning"), ("Pay",)]
    assert [chunk.section_path for chunk in chunks] == paths
    assert texts(chunks)[0] == "Preface."
    assert texts(chunks)[1].startswith("# Leave\n\n## Sick days\n\nCall")
    assert texts(chunks)[1].endswith("# no heading\n```")
    assert texts(chunks)[3] == "# Pay #\nMonthly."
    check(LEAVE, chunks)


def test_a_long_section_is_cut_between_paragraphs_and_never_joined_to_the_next() -> None:
    chunks = chunk_headings(document(LEAVE), size=40)
    assert texts(chunks)[:4] == [
        "Preface.",
        "# Leave\n\n## Sick days\n\nCall by nine.",
        "Bring a note.\n\n```\n# no heading\n```",
        "Vacation *planning*\n-------------------",
    ]
    assert [chunk.section_path for chunk in chunks][1:3] == [("Leave", "Sick days")] * 2


def test_a_heading_without_text_joins_only_a_deeper_one() -> None:
    chunks = chunk_headings(document("# A\n\n# B\n\n### C\n\nText.\n"))
    expected = [(("A",), "# A"), (("B", "C"), "# B\n\n### C\n\nText.")]
    assert [(chunk.section_path, chunk.text) for chunk in chunks] == expected


def test_section_file_and_date_travel_with_every_chunk() -> None:
    source = document(LEAVE, title="Handbook", uri="u", metadata={"file": "leave.md", "date": "2024-03-01"})
    for chunker in (chunk_chars, chunk_words, chunk_sentences, chunk_paragraphs):
        chunk = chunker(source, size=1, overlap=0)[-1]
        assert chunk.section_path == ("Pay",)
        assert (chunk.doc_id, chunk.title, chunk.uri) == ("doc", "Handbook", "u")
        assert chunk.metadata == source.metadata


def test_a_program_has_comments_and_no_headings() -> None:
    source = document("# set up\nx = 1\n\n# use\nprint(x)\n", metadata={"file": "a.py"})
    assert {chunk.section_path for chunk in chunk_paragraphs(source)} == {()}
    assert len(chunk_headings(source)) == 1


# Code

PYTHON = '''"""Doc."""
import os
LIMIT = "\\d"

# About f,
# in two lines.
@cache
def f(x):

    return x


class A:
    """Of A."""

    # About m.
    def m(self):
        a = 1

        return a

    async def n(self):
        pass
print(f(1))
'''


HEAD = '"""Doc."""\nimport os\nLIMIT = "\\d"'
FUNCTION = "# About f,\n# in two lines.\n@cache\ndef f(x):\n\n    return x"
CLASS = PYTHON[PYTHON.index("class A") : PYTHON.index("\nprint")]
METHODS = ["# About m.\n    def m(self):\n        a = 1\n\n        return a", "async def n(self):\n        pass"]
C = ["#include <a.h>", "// About f.\nint f() {\n\n  return 1;\n\n}", "struct s {\n  int a;\n};"]


@pytest.mark.parametrize(
    ("source", "size", "expected"),
    [
        (PYTHON, None, [HEAD, FUNCTION, CLASS, "print(f(1))"]),
        (CLASS, 80, ['class A:\n    """Of A."""', *METHODS]),  # too long: cut between methods
        ("def f():\n    a = 1\n    b = 2\n    return a\n", 22, ["def f():\n    a = 1", "b = 2\n    return a"]),
        ("\n\n".join(C), None, C),  # not Python: cut where an unindented line follows a blank one
    ],
)
def test_code_blocks(source: str, size: int | None, expected: list[str]) -> None:
    assert texts(chunk_code(document(source), size)) == expected


# Tokens


def test_tokens_need_a_fast_tokenizer_and_may_exceed_its_window_without_a_warning(
    recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match=r"tokenizer=encoder\.tokenizer"):
        chunk_tokens(document("text"), 5, 0)
    # These tokenizers state a window of 8 tokens.
    assert len(chunk_tokens(document(TWELVE), 10, 0, tokenizer("wordpiece"))) == 6
    assert not recwarn.list
    assert not caplog.records


# Corpora, joining, slicing


def test_chunk_corpus_cuts_each_document_with_the_options() -> None:
    documents = [Document("b", "one two three"), Document("empty", ""), Document("a", "four")]
    chunks = chunk_corpus(documents, chunk_words, size=2, overlap=1)
    assert [(chunk.id, chunk.text) for chunk in chunks] == [("b#0", "one two"), ("b#1", "two three"), ("a#0", "four")]


def test_merge_adjacent_joins_overlapping_chunks_in_the_order_of_the_text() -> None:
    chunks = chunk_words(document(TWELVE), size=5, overlap=2)
    [passage] = merge_adjacent([chunks[2], chunks[0], chunks[1]])
    assert (passage.start, passage.end) == (0, TWELVE.index(" twelve"))
    assert passage.text == TWELVE[passage.start : passage.end]
    assert texts(merge_adjacent([chunks[3], chunks[0]])) == ["ten eleven twelve", "one two three four five"][::-1]


def test_merge_adjacent_joins_across_white_space_if_it_has_the_document() -> None:
    source = document("Aa bb.\nCc dd. Ee ff. Gg.")
    assert texts(merge_adjacent(chunk_chars(source, size=7, overlap=0))) == [source.text]
    chunks = chunk_sentences(source)
    assert texts(merge_adjacent([chunks[1], chunks[0], chunks[3]])) == ["Aa bb.", "Cc dd.", "Gg."]
    assert texts(merge_adjacent([chunks[1], chunks[0], chunks[3]], [source])) == ["Aa bb.\nCc dd.", "Gg."]


def test_merge_adjacent_keeps_documents_apart_and_the_first_section() -> None:
    first = [Chunk("a", 0, "abc", 0, 3, section_path=("One",)), Chunk("a", 1, "cd", 2, 4, section_path=("Two",))]
    other = [Chunk("b", 0, "abc", 0, 3, context="About b."), Chunk("b", 1, "cde", 2, 5, context="More of b.")]
    merged = merge_adjacent([other[1], first[0], other[0], first[1]])
    passages = [("b", "abcde", ()), ("a", "abcd", ("One",))]
    assert [(chunk.doc_id, chunk.text, chunk.section_path) for chunk in merged] == passages
    assert merged[0].context == "About b.\nMore of b."
    assert merge_adjacent([]) == []


@run
@given(text=TEXTS, size_and_overlap=SIZES, data=st.data())
def test_merged_passages_are_the_text_of_their_chunks(
    text: str, size_and_overlap: tuple[int, int], data: st.DataObject
) -> None:
    size, overlap = size_and_overlap
    chunks = chunk_words(document(text), size, overlap) + chunk_chars(document(text), size, overlap)
    chosen = data.draw(st.lists(st.sampled_from(chunks), max_size=8) if chunks else st.just([]))
    for documents in ([], [document(text)]):
        passages = merge_adjacent(chosen, documents)
        assert all(passage.text == text[passage.start : passage.end] for passage in passages)
        assert all(a.end < b.start for a, b in pairwise(passages))
        assert all(any(p.start <= c.start and c.end <= p.end for p in passages) for c in chosen)


TEXT = "Intro. One two.  \n Three.\n\nFour. "
SLICED = Chunk("d", 4, TEXT, 2, 2 + len(TEXT), title="T", section_path=("A",), metadata={"date": "2024"}, context="c")


@pytest.mark.parametrize(
    ("spans", "parts"),
    [
        ([(25, 33), (6, 15)], [(9, "One two."), (29, "Four.")]),
        ([(7, 15), (19, 25)], [(9, "One two.  \n Three.")]),  # only white space lies between
        ([(0, 10), (7, 15)], [(2, "Intro. One two.")]),
        ([(15, 19), (0, 0)], []),
        ([], []),
    ],
)
def test_slices_of_a_chunk_keep_its_place_and_origin(
    spans: list[tuple[int, int]], parts: list[tuple[int, str]]
) -> None:
    expected = [replace(SLICED, text=text, start=start, end=start + len(text)) for start, text in parts]
    assert slice_chunk(SLICED, spans) == expected


@run
@given(st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))))
def test_slices_hold_every_requested_character_at_its_offset(spans: list[tuple[int, int]]) -> None:
    spans = [(min(span), max(span)) for span in spans]
    whole = "xx" + TEXT
    found = slice_chunk(SLICED, spans)
    requested = {i + SLICED.start for start, end in spans for i in range(start, end) if not TEXT[i].isspace()}
    assert requested <= {i for piece in found for i in range(piece.start, piece.end)}
    for piece in found:
        assert piece.text == whole[piece.start : piece.end] == piece.text.strip() != ""
        assert {i for i in range(piece.start, piece.end) if not whole[i].isspace()} <= requested
