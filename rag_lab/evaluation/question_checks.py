"""What a generated question must not be: a copy, a duplicate, or a negative that a document answers."""

import difflib
import functools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml
from pydantic import BaseModel

from rag_lab import settings
from rag_lab.answering.extractive import ExtractiveReader
from rag_lab.citations.quotes import ground_quote
from rag_lab.llm.language_model import LanguageModel
from rag_lab.llm.prompt import Prompt
from rag_lab.llm.structured import complete_json
from rag_lab.prompting.templates import assign_sources
from rag_lab.retrieval.bm25 import ENGLISH_STOP_WORDS, analyze
from rag_lab.types import Chunk

FoundAnswer = tuple[Chunk, str]  # the passage that answers a question, and the words that do
AnswerCheck = Callable[[str, Sequence[Chunk]], FoundAnswer | None]

MAX_RUN = 7  # consecutive words that a question may share with its passage
MAX_SHARE = 0.8  # of its words, for a short question
MIN_SIMILARITY = 0.75  # Jaccard similarity of terms from which two questions are duplicates
CHECK_TOKENS = 300

_OF_THE_PASSAGE = re.compile(r"\b(?:the|this) (?:sentence|passage|paragraph|excerpt)\b", re.IGNORECASE)


@functools.cache
def prompts() -> dict[str, Any]:
    """The prompts of ``data/question_prompts.yaml``."""
    found: dict[str, Any] = yaml.safe_load((settings.DATA / "question_prompts.yaml").read_text(encoding="utf-8"))
    return found


def copies(question: str, passage: str) -> bool:
    """Whether a question repeats the passage word for word, so that searching for it would be no test.

    It does if they share more than ``MAX_RUN`` consecutive terms, or a run of at least ``MAX_SHARE`` of its terms.
    """
    terms, passage_terms = analyze(question, query=True), analyze(passage, query=True)
    matcher = difflib.SequenceMatcher(None, terms, passage_terms, autojunk=False)
    run = matcher.find_longest_match(0, len(terms), 0, len(passage_terms)).size
    return run > MAX_RUN or (len(terms) > 0 and run >= MAX_SHARE * len(terms))


def speaks_of_passage(question: str) -> bool:
    """Whether a question is about a text as such ("How long is the sentence?"). English only."""
    return _OF_THE_PASSAGE.search(question) is not None


def duplicate_of(question: str, others: Sequence[tuple[str, str]]) -> str | None:
    """The id of the first of ``others`` (id, text) that asks the same, or None.

    Two questions ask the same if the Jaccard similarity of their terms without stop words is at least
    ``MIN_SIMILARITY`` and their numbers are equal.
    """
    terms = _terms(question)
    for id_, text in others:
        other = _terms(text)
        similar = len(terms & other) >= MIN_SIMILARITY * len(terms | other)
        if similar and not any(map(str.isdigit, "".join(terms ^ other))):
            return id_
    return None


def sentence_check(
    question: str, passages: Sequence[Chunk], reader: ExtractiveReader, threshold: float
) -> FoundAnswer | None:
    """The check without a language model: the best sentence, if its cosine with the question reaches the threshold.

    It finds what is near, not what answers, so it drops good negatives too (how many:
    ``data/results/generated_questions.json``).
    """
    best = reader.best(question, assign_sources(passages))
    return (best[0].source.chunk, best[0].text) if best and best[0].score >= threshold else None


class AnswerVerdict(BaseModel):
    """Whether a passage answers the question, its source id, and the words that do."""

    answered: bool
    source: str
    quote: str


def check_prompt(question: str, passages: Sequence[Chunk]) -> Prompt:
    """The prompt of ``model_check``."""
    sources = [
        {"id": source.id, "title": source.chunk.title, "text": source.text} for source in assign_sources(passages)
    ]
    request = json.dumps({"question": question, "passages": sources}, ensure_ascii=False)
    return Prompt.of(request, system=prompts()["check"])


def model_check(question: str, passages: Sequence[Chunk], llm: LanguageModel) -> FoundAnswer | None:
    """The check by a language model that writes JSON. Its quote must be in the passage that it names.

    Raises InvalidJSON if the model does not write it.
    """
    found = complete_json(llm, check_prompt(question, passages), AnswerVerdict, CHECK_TOKENS)
    chunk = next((source.chunk for source in assign_sources(passages) if source.id == found.source), None)
    return (chunk, found.quote) if found.answered and chunk and ground_quote(found.quote, chunk.text) else None


def _terms(text: str) -> frozenset[str]:
    return frozenset(analyze(text, stop_words=ENGLISH_STOP_WORDS, query=True))
