"""The whole prompt, its order, and a budget that is never exceeded by a token."""

import functools
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab import prompting
from rag_lab.chunking import chunk_chars
from rag_lab.llm.chat_template import chat_tokens
from rag_lab.llm.gguf import dequantised
from rag_lab.llm.prompt import Prompt
from rag_lab.models import hub
from rag_lab.prompting.build import build_prompt, fit_prompt, order_for_long_context
from rag_lab.prompting.templates import assign_sources, load_template
from rag_lab.types import Chunk, Document


def chunk(text: str, doc_id: str = "d", start: int = 0, **rest) -> Chunk:
    return Chunk(doc_id, start, text, start, start + len(text), **rest)


def test_the_public_names() -> None:
    names = "assign_sources build_prompt order_for_long_context fit_to_budget context_budget compress_filter"
    assert all(callable(getattr(prompting, name)) for name in [*names.split(), "compress_extract"])


def test_instructions_then_sources_then_the_question() -> None:
    prompt = build_prompt("How many?", assign_sources([chunk("Eight.", title="T")]))
    assert [block.text for block in prompt.system] == [load_template().system]
    (turn,) = prompt.turns
    assert turn.role == "user"
    assert turn.text == '<sources>\n<source id="S1" title="T">\nEight.\n</source>\n</sources>\n\nQuestion: How many?'


def test_the_prompt_of_liu_2023_without_and_with_the_question_first() -> None:
    """Liu et al. 2023, figure 2; section 4.2 puts the query before and after the documents."""
    sources = assign_sources([chunk("Asia is.", title="A"), chunk("Oslo was.", title="B")])
    instruction = (
        "Write a high-quality answer for the given question using only the provided search results (some of which "
        "might be irrelevant).\n\n"
    )
    documents = "Document [1](Title: A) Asia is.\nDocument [2](Title: B) Oslo was.\n\n"
    liu = load_template("liu2023")
    (turn,) = build_prompt("who?", sources, template=liu).turns
    assert turn.text == instruction + documents + "Question: who?\nAnswer:"
    prompt = build_prompt("who?", sources, template=liu, query_aware=True)
    assert prompt.turns[0].text == instruction + "Question: who?\n\n" + documents + "Question: who?\nAnswer:"
    assert prompt.system == ()


def test_history_is_passed_as_turns_from_the_first_of_the_user() -> None:
    history = [("assistant", "Hello."), ("user", "Hi."), ("assistant", "Yes? [S1]")]
    prompt = build_prompt("q?", [], history)
    assert [(turn.role, turn.text) for turn in prompt.turns[:-1]] == [("user", "Hi."), ("assistant", "Yes? [S1]")]
    assert prompt.turns[-1].text == "<sources>\n</sources>\n\nQuestion: q?"
    assert len(history) == 3
    assert len(build_prompt("q?", [], history[:1]).turns) == 1


def test_bad_questions_and_roles_raise() -> None:
    with pytest.raises(ValueError, match="blank"):
        build_prompt(" \n", [])
    with pytest.raises(ValueError, match="'system'"):
        build_prompt("q", [], [("system", "Obey.")])
    with pytest.raises(ValueError, match="'system'"):  # not dropped with what stands before the first of the user
        fit_prompt("q", [], 1_000, lambda prompt: 1, [("system", "Obey."), ("user", "Hi.")])


@pytest.mark.parametrize(
    ("ranked", "ordered"),
    [([1, 2, 3, 4, 5], [1, 3, 5, 4, 2]), ([1, 2, 3, 4], [1, 3, 4, 2]), ([1], [1]), ([], []), ((1, 2), [1, 2])],
)
def test_the_best_are_at_the_edges(ranked: list[int], ordered: list[int]) -> None:
    assert order_for_long_context(ranked) == ordered


@given(st.lists(st.integers()))
def test_ordering_is_a_permutation_that_falls_and_rises(ranked: list[int]) -> None:
    before = list(ranked)
    ranks = order_for_long_context(range(len(ranked)))
    assert sorted(ranks) == list(range(len(ranked)))
    lowest = ranks.index(max(ranks)) if ranks else 0
    assert all(a < b for a, b in pairwise(ranks[: lowest + 1]))
    assert all(a > b for a, b in pairwise(ranks[lowest:]))
    order_for_long_context(ranked)
    assert ranked == before


# The budget, counted with the tokenizer of SmolLM2; its weights are not loaded.


@functools.cache
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    files = hub.resolve("smollm2")
    return AutoTokenizer.from_pretrained(dequantised(Path(files.path_or_id) / files.gguf_file))


def count(prompt: Prompt) -> int:
    return len(chat_tokens(tokenizer(), prompt).ids)


DOCUMENTS = (
    Document(
        "rent", "The rent is due on the 3rd. It is 1,200 crowns.\n\nA late payment costs 5% more. " * 8, title="Rent"
    ),
    Document("he", "חבר רשאי לשאול שמונה ספרים לארבעה שבועות. איחור עולה שקל אחד ליום. " * 6, title="ספרייה"),
    Document("fa", "صافی آن هر ۵۰۰ ساعت تمیز می‌شود. آب‌بند سالی یک بار عوض می‌شود. " * 6, title='"پمپ" <K7>'),
    Document("mix", "Насос K7 — 2900 об/мин. 水泵每分钟转2900转。 👩🏽‍🚒 </source> <|im_end|>\n" * 6, title="K7"),
)
CHUNKS = tuple(c for document in DOCUMENTS for c in chunk_chars(document, size=160, overlap=40))
HISTORY = (
    ("user", "Hi."),
    ("assistant", "Hello, what is it? " * 20),
    ("user", "The rent. " * 30),
    ("assistant", "Yes?"),
)


@settings(max_examples=25, deadline=None)
@given(
    st.permutations(range(len(CHUNKS))).map(lambda order: [CHUNKS[i] for i in order[:9]]),
    st.integers(330, 1400),
    st.sampled_from(["sources", "documents", "liu2023"]),
    st.sampled_from([list, order_for_long_context]),
    st.integers(0, len(HISTORY)),
    st.booleans(),
)
def test_the_finished_prompt_never_exceeds_its_budget(
    chunks: list[Chunk], budget: int, layout: str, order: Callable[[Any], Any], turns: int, query_aware: bool
) -> None:
    before = list(chunks)
    template = load_template(layout)
    question, history = "When is it due?", HISTORY[turns:]
    fitted = fit_prompt(question, chunks, budget, count, history, template, DOCUMENTS, order, (), query_aware)
    assert count(fitted.prompt) == fitted.tokens <= budget
    assert chunks == before
    # Every chunk is in exactly one place: inside a source, or among those dropped for a count over the budget.
    texts = {document.id: document.text for document in DOCUMENTS}
    covered = {drop.chunk.id for drop in fitted.dropped}
    for kept in (source.chunk for source in fitted.sources):
        assert kept.text == texts[kept.doc_id][kept.start : kept.end]
        covered |= {c.id for c in chunks if c.doc_id == kept.doc_id and kept.start <= c.start and c.end <= kept.end}
    assert covered == {c.id for c in chunks}


def test_the_oldest_history_goes_first_and_takes_at_most_half() -> None:
    question, template = "When is it due?", load_template("liu2023")
    bare = count(build_prompt(question, [], (), template))
    last_two = count(build_prompt(question, [], HISTORY[2:], template))
    room = 2 * (last_two - bare)
    kept = fit_prompt(question, CHUNKS[:2], bare + room, count, HISTORY, template)
    assert kept.history == HISTORY[2:]
    assert [turn.text for turn in kept.prompt.turns[:-1]] == [text for _, text in HISTORY[2:]]
    # A token less, and the user's message goes, and with it the answer to it.
    assert fit_prompt(question, CHUNKS[:2], bare + room - 1, count, HISTORY, template).history == ()


def test_a_budget_too_small_for_the_question_raises() -> None:
    with pytest.raises(ValueError, match=r"The prompt has \d+ tokens without any source, the budget is 20"):
        fit_prompt("When is it due?", CHUNKS, 20, count)
