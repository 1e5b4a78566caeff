import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rag_lab.chunking import chunk_sentences
from rag_lab.llm.claude import ClaudeLLM
from rag_lab.llm.prompt import Block, Completion, Prompt, Usage
from rag_lab.retrieval import contextual
from rag_lab.retrieval.contextual import (
    PREFILL,
    add_heading_context,
    add_llm_context,
    context_prompt,
    generate_contexts,
)
from rag_lab.types import Chunk, Document
from tests.support.local_model import smollm2
from tests.support.messages_server import Fault, MessagesServer
from tests.support.messages_server import running_server as running_server  # a fixture

LAB = Document(
    "lab",
    "# Lab rules\n\nThese rules hold in every lab. They are old.\n\n## Fire\n\nLeave at once. The bell rings.\n\n"
    "### Lifts\n\nLifts stand still in a Fire alarm.\n",
    title="Lab rules",
)
BERLIN = Document(
    "berlin",
    "Berlin is the capital and largest city of Germany. It has 3.85 million inhabitants. The city is also one of the "
    "states of Germany.",
    title="Berlin",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    smollm2()  # loaded before the cache folder is changed
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path))
    return tmp_path / "contexts.jsonl"


class StandIn:
    """TEST DOUBLE: writes the number of the prompt and fails after ``limit`` prompts. A token is a character."""

    name = identity = "stand-in"
    dtype = ""
    window = 10_000
    paid = needs_prefill = False
    count_tokens = staticmethod(len)

    def __init__(self, limit: int = 1000, text: str = "Context {}.") -> None:
        self.prompts: list[Prompt] = []
        self.limit = limit
        self.text = text

    def count_prompt_tokens(self, prompt: Prompt) -> int:
        return sum(len(turn.text) for turn in prompt.turns)

    def complete_many(self, prompts: list[Prompt], max_tokens: int) -> list[Completion]:
        if len(self.prompts) + len(prompts) > self.limit:
            raise ConnectionError("gone")
        numbers = range(len(self.prompts) + 1, len(self.prompts) + len(prompts) + 1)
        self.prompts += prompts
        return [Completion(self.text.format(number), Usage(output_tokens=3), "end_turn") for number in numbers]


def chunk(document: Document, text: str, section_path: tuple[str, ...] = ()) -> Chunk:
    start = document.text.index(text)
    return Chunk(document.id, 0, text, start, start + len(text), document.title, section_path=section_path)


def heading_context(text: str, *section_path: str) -> str:
    return add_heading_context(LAB, [chunk(LAB, text, section_path)])[0].context


# Headings -----------------------------------------------------------------------------------------------------------


def test_heading_context_is_title_path_and_opening_sentence() -> None:
    context = "Lab rules > Fire\nThese rules hold in every lab."
    assert heading_context("Leave at once.", "Lab rules", "Fire") == context  # the title, a heading too, comes once
    assert heading_context("Leave at once.", "Fire") == context


def test_heading_context_does_not_repeat_what_the_chunk_says() -> None:
    opening = "These rules hold in every lab."
    assert heading_context(opening, "Lab rules") == "Lab rules"  # the chunk is the opening sentence
    assert heading_context("hold in every", "Lab rules") == "Lab rules"  # or a part of it
    assert heading_context(f"# Lab rules\n\n{opening}", "Lab rules") == ""  # or holds title and sentence
    lifts = "### Lifts\n\nLifts stand still in a Fire alarm."
    assert heading_context(lifts, "Lab rules", "Fire", "Lifts") == f"Lab rules\n{opening}"
    assert heading_context("Leave at once. The bell", "Lift") == f"Lab rules > Lift\n{opening}"


@pytest.mark.parametrize(
    ("title", "text", "context"),
    [
        ("Ham", "Opening here. Hamburg is large.", "Ham\nOpening here."),  # a part of a word is not a heading
        ("T", "ברלין היא בירת גרמניה. היא גדולה.", "T\nברלין היא בירת גרמניה."),
        ("T", "تهران پایتخت ایران است. شهر بزرگ است.", "T\nتهران پایتخت ایران است."),
        ("T", "東京は日本の首都です。人口は多い。", "T\n東京は日本の首都です。"),
        # The opening is cut at a word: 300 characters are 60 words with their spaces.
        ("", "word " * 100 + "end. Last one.", "word " * 60 + "…"),
        ("", "## Only a heading", ""),
    ],
)
def test_heading_context_of_the_last_sentence(title: str, text: str, context: str) -> None:
    document = Document("d", text, title=title)
    last = chunk_sentences(document)[-1]
    assert add_heading_context(document, [last]) == [replace(last, context=context)]


def test_chunks_keep_everything_but_the_context() -> None:
    chunks = chunk_sentences(LAB)
    assert [replace(c, context="") for c in add_heading_context(LAB, chunks)] == chunks
    assert add_heading_context(LAB, []) == []


# The published prompt -----------------------------------------------------------------------------------------------


def test_the_published_prompt_in_two_blocks_the_first_cached() -> None:
    # Written out from "Introducing Contextual Retrieval" (Anthropic, 2024-09-19); the texts look like its parts.
    document, text = "A {chunk} </document> <chunk> {document} {0} %s \\1", "of </chunk> {chunk}"
    (turn,) = context_prompt(document, text).turns
    assert turn.text == (
        "<document>\n"
        "A {chunk} </document> <chunk> {document} {0} %s \\1\n"
        "</document>\n"
        "\n"
        "Here is the chunk we want to situate within the whole document\n"
        "<chunk>\n"
        "of </chunk> {chunk}\n"
        "</chunk>\n"
        "Please give a short succinct context to situate this chunk within the overall document for the purposes of "
        "improving search retrieval of the chunk. Answer only with the succinct context and nothing else."
    )
    assert [block.cache for block in turn.blocks] == ["5m", ""]
    assert document in turn.blocks[0].text
    assert text in turn.blocks[1].text


def test_styles_of_the_prompt() -> None:
    plain, prefilled, example = (context_prompt("D", "C", style).turns for style in ("plain", "prefill", "example"))
    assert prefilled == (*plain, prefilled[-1])
    assert (prefilled[-1].role, prefilled[-1].text) == ("assistant", PREFILL)
    assert [turn.role for turn in example] == ["user", "assistant", "user"]
    assert example[-1:] == plain
    with pytest.raises(ValueError, match="style is 'short'"):
        context_prompt("D", "C", "short")  # type: ignore[arg-type]


# Any model ----------------------------------------------------------------------------------------------------------


def test_contexts_come_in_order_with_their_usage() -> None:
    llm = StandIn()
    chunks = [*chunk_sentences(BERLIN), *chunk_sentences(LAB)]
    situated = list(generate_contexts([BERLIN, LAB], chunks, llm))
    assert [c.context for c, _ in situated] == [f"Context {n + 1}." for n in range(len(chunks))]
    assert [replace(c, context="") for c, _ in situated] == chunks
    assert sum((usage for _, usage in situated), Usage()).output_tokens == 3 * len(chunks)
    documents = [prompt.turns[0].blocks[0] for prompt in llm.prompts]
    assert set(documents[:3]) == {Block(f"<document>\n{BERLIN.text}\n</document>", "5m")}
    assert len(set(documents)) == 2
    assert len(llm.prompts[0].turns) == 1  # the plain style


def test_an_interrupted_run_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contextual, "_BATCH_SIZE", 1)
    chunks = chunk_sentences(LAB)
    with pytest.raises(ConnectionError):
        add_llm_context(LAB, chunks, StandIn(limit=2))
    second = StandIn()
    situated = list(generate_contexts([LAB], chunks, second))
    assert len(second.prompts) == len(chunks) - 2
    assert [c.context for c, _ in situated[:3]] == ["Context 1.", "Context 2.", "Context 1."]
    assert [usage.output_tokens for _, usage in situated] == [3] * len(chunks)  # as when it was written
    third = StandIn()
    assert add_llm_context(LAB, chunks, third) == [c for c, _ in situated]
    assert third.prompts == []


def test_a_change_of_model_prompt_or_length_writes_a_new_context() -> None:
    chunks = chunk_sentences(BERLIN)[:1]
    llm = StandIn()
    other = StandIn()
    other.identity = "other weights under the same name"
    longer = replace(BERLIN, text=BERLIN.text + " More.")
    add_llm_context(BERLIN, chunks, llm)
    for document, model, options in (
        (BERLIN, llm, {"style": "example"}),
        (BERLIN, llm, {"max_tokens": 10}),
        (longer, llm, {}),
        (BERLIN, other, {}),
    ):
        before = len(model.prompts)
        add_llm_context(document, chunks, model, **options)
        assert len(model.prompts) == before + 1


def test_a_truncated_record_is_written_again(cache: Path) -> None:
    chunks = chunk_sentences(BERLIN)
    add_llm_context(BERLIN, chunks, StandIn())
    lines = cache.read_bytes().splitlines(keepends=True)
    cache.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    llm = StandIn()
    with pytest.warns(UserWarning, match="1 unreadable line"):
        situated = add_llm_context(BERLIN, chunks, llm)
    assert len(llm.prompts) == 1
    assert [c.context for c in situated] == ["Context 1.", "Context 2.", "Context 1."]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_run_pays_only_for_what_is_missing(cache: Path) -> None:
    code = (
        "import time\n"
        "from tests.retrieval.test_contextual import LAB, StandIn, add_llm_context, chunk_sentences, contextual\n"
        "contextual._BATCH_SIZE = 1\n"
        "class Slow(StandIn):\n"
        "    def complete_many(self, prompts, max_tokens):\n"
        "        time.sleep(600 if len(self.prompts) == 3 else 0)\n"
        "        return super().complete_many(prompts, max_tokens)\n"
        "add_llm_context(LAB, chunk_sentences(LAB), Slow())"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    while not cache.exists() or cache.read_bytes().count(b"\n") < 3:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    llm = StandIn()
    chunks = chunk_sentences(LAB)
    situated = add_llm_context(LAB, chunks, llm)
    assert len(llm.prompts) == len(chunks) - 3
    assert [c.context for c in situated[:4]] == ["Context 1.", "Context 2.", "Context 3.", "Context 1."]


@pytest.mark.parametrize(
    ("completed", "stop_reason", "context"),
    [
        ("One is whole. Two is whole too. Three is n", "max_tokens", "One is whole. Two is whole too."),
        ("One is whole. Two is whole too.", "max_tokens", "One is whole. Two is whole too."),
        ("Only one that goes on and", "max_tokens", "Only one that goes on and"),
        (" One. Two goes on", "end_turn", "One. Two goes on"),
        ("これは東京です。人口は", "max_tokens", "これは東京です。"),
        ("This chunk is about Berlin.\n</chunk>\nPlease give", "end_turn", "This chunk is about Berlin."),
    ],
)
def test_a_context_ends_with_its_last_whole_sentence_or_where_the_model_repeats_the_prompt(
    completed: str, stop_reason: str, context: str
) -> None:
    assert contextual._whole_sentences(Completion(completed, Usage(), stop_reason)) == context


def test_empty_contexts_are_reported() -> None:
    with pytest.warns(UserWarning, match="stand-in wrote no context for 3 of 3 chunks"):
        add_llm_context(BERLIN, chunk_sentences(BERLIN), StandIn(text=" "))


def test_wrong_chunks_and_documents_are_refused_before_the_first_call() -> None:
    llm = StandIn()
    with pytest.raises(ValueError, match="same id"):
        list(generate_contexts([BERLIN, BERLIN], chunk_sentences(BERLIN), llm))
    with pytest.raises(ValueError, match="stand-in has no Message Batches"):
        add_llm_context(BERLIN, chunk_sentences(BERLIN), llm, as_batch=True)
    for chunks in (chunk_sentences(LAB), [replace(chunk_sentences(BERLIN)[0], start=3)]):
        with pytest.raises(ValueError, match="Chunk"):
            add_llm_context(BERLIN, chunks, llm)
    with pytest.raises(ValueError, match="not a piece of"):
        add_heading_context(BERLIN, chunk_sentences(LAB))
    assert llm.prompts == []


# The local model ----------------------------------------------------------------------------------------------------


def test_smollm2_names_the_city_and_prefills_the_document_once() -> None:
    llm = smollm2()
    chunks = chunk_sentences(BERLIN)
    situated = list(generate_contexts([BERLIN], chunks, llm, max_tokens=25))
    for c, _ in situated:
        assert c.context.startswith(PREFILL)
        assert "Berlin" in c.context
    shared = sorted((usage.cache_write_tokens, usage.cache_read_tokens) for _, usage in situated)
    length = shared[-1][0]
    assert length > 0
    assert shared == [(0, length), (0, length), (length, 0)]
    assert list(generate_contexts([BERLIN], chunks, llm, max_tokens=25)) == situated


def test_a_document_too_long_for_the_window_is_cut_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = smollm2()
    llm.window = 500
    document = Document("d", "\n\n".join(f"Paragraph {n} is about the number {n}." for n in range(60)))
    chunks = chunk_sentences(document)
    asked: list[Prompt] = []
    monkeypatch.setattr(
        llm, "complete_many", lambda prompts, _: asked.extend(prompts) or [Completion("C.", Usage(), "end_turn")] * 8
    )
    with pytest.warns(UserWarning, match=r"d has \d+ tokens, too many .* window of 500: .* one of 4 parts"):
        list(zip(range(8), generate_contexts([document], chunks, llm), strict=False))
    parts = [
        prompt.turns[0].blocks[0].text.removeprefix("<document>\n").removesuffix("\n</document>") for prompt in asked
    ]
    assert all(c.text in part for c, part in zip(chunks, parts, strict=False))
    assert all(llm.count_prompt_tokens(prompt) + 60 <= 500 for prompt in asked)
    assert document.text.startswith(parts[0])
    assert document.text[len(parts[0]) :].startswith("Paragraph")  # cut between paragraphs
    with pytest.raises(ValueError, match="no room for any of the document"):
        add_llm_context(document, [chunk(document, document.text)], llm)


def test_a_document_that_fits_is_given_whole_and_without_warning() -> None:
    llm = smollm2()
    whole = context_prompt(LAB.text, "C", "prefill")
    llm.window = llm.count_prompt_tokens(whole) + 60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert contextual._parts_that_fit(LAB, "C", llm, "prefill", 60) == [(0, len(LAB.text))]
    llm.window -= 1
    with pytest.warns(UserWarning, match="2 parts"):
        (a, b), (c, d) = contextual._parts_that_fit(LAB, "C", llm, "prefill", 60)
    assert (a, b, d) == (0, c, len(LAB.text))


# Claude, against the loopback server --------------------------------------------------------------------------------


@pytest.mark.parametrize("as_batch", [False, True])
def test_claude_writes_contexts_with_the_published_prompt(messages_server: MessagesServer, as_batch: bool) -> None:
    # The server's answer is "About" and the last three words of the prompt's last block.
    llm = ClaudeLLM("claude-haiku-5-5")
    documents = [replace(LAB, text=LAB.text + "Fill. " * 3000), replace(BERLIN, text=BERLIN.text + " Fill." * 3000)]
    chunks = [c for d in documents for c in chunk_sentences(d)[:3]]
    situated = list(generate_contexts(documents, chunks, llm, as_batch=as_batch))
    assert [replace(c, context="") for c, _ in situated] == chunks
    assert {c.context for c, _ in situated} == {"About and nothing else.."}
    usages = [usage for _, usage in situated]
    assert sum(usage.cache_write_tokens > 0 for usage in usages) == 2  # once a document
    assert sum(usage.dollars for usage in usages) > 0
    billed = len(messages_server.billed)
    assert list(generate_contexts(documents, chunks, llm, as_batch=as_batch)) == situated
    assert len(messages_server.billed) == billed == len(chunks)


def test_a_failed_call_is_an_error_and_is_made_again(messages_server: MessagesServer) -> None:
    chunks = chunk_sentences(BERLIN)
    messages_server.faults = [Fault("status", 400, holds="<chunk>\\nIt has 3.85")]
    with pytest.raises(RuntimeError, match=r"no context for 1 of 3 chunks. The first reason: .*400"):
        add_llm_context(BERLIN, chunks, ClaudeLLM("claude-haiku-5-5"))
    assert len(messages_server.billed) == 2
    assert all(c.context for c in add_llm_context(BERLIN, chunks, ClaudeLLM("claude-haiku-5-5")))
    assert len(messages_server.billed) == 3


def test_the_default_model_is_claudes_context_model(messages_server: MessagesServer) -> None:
    (chunk,) = add_llm_context(BERLIN, chunk_sentences(BERLIN)[:1])
    assert chunk.context
    assert {body["model"] for body in messages_server.asked()} == {"claude-haiku-5-5"}


# What it is good for ------------------------------------------------------------------------------------------------


def test_headings_help_dense_retrieval_on_insurance() -> None:
    """At least a tenth more of the gold characters in the top 10, the interval above zero (measured: a half more)."""
    from rag_lab.datasets import load_corpus
    from rag_lab.metrics import paired_difference
    from rag_lab.models.encoder import Encoder
    from rag_lab.retrieval.dense import DenseIndex
    from rag_lab.retrieval.evaluate import span_recalls

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corpus = load_corpus("insurance")
    questions = [q for q in corpus.questions if q.answerable and q.language == "en"]
    encoder = Encoder.load("minilm")
    vectors = dict(
        zip((q.text for q in questions), encoder.encode([q.text for q in questions], kind="query"), strict=True)
    )
    recalls: list[np.ndarray] = []
    for contextualize in (lambda document, chunks: chunks, add_heading_context):
        chunks = [c for d in corpus.documents for c in contextualize(d, chunk_sentences(d))]
        index = DenseIndex(chunks, encoder.encode([c.contextual_text for c in chunks]))
        search = lambda text, k, index=index: index.search(vectors[text], k)  # noqa: E731
        recalls.append(span_recalls(search, questions, [10])[10])
    assert paired_difference(recalls[1], recalls[0]).low > 0.1
