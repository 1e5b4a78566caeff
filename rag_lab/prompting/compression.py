"""Fewer prompt tokens: drop the irrelevant passages, and keep only the sentences that answer in the others."""

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence

import regex
import yaml
from pydantic import BaseModel

from rag_lab import settings
from rag_lab.chunking import slice_chunk
from rag_lab.llm.language_model import CallFailed, LanguageModel, gives_likelihoods
from rag_lab.llm.prompt import Prompt
from rag_lab.llm.structured import complete_json
from rag_lab.models.encoder import Encoder
from rag_lab.prompting.escaping import escape, normal, unescape
from rag_lab.prompting.token_budget import Dropped, Selection
from rag_lab.retrieval.rerankers import Reranker, by_score
from rag_lab.text.segmentation import sentences
from rag_lab.types import CharSpan, Chunk, Hit

# (question, passages) -> for each passage the quotes from it that answer; each is checked against its passage.
Extractor = Callable[[str, Sequence[str]], Sequence[Sequence[str]]]

_NONE = "NONE"
_MIN_QUOTE_CHARACTERS = 5  # letters and digits; a shorter quote may match by chance
_WORD = r"[[\p{L}\p{M}\p{N}]--[\p{Han}\p{Hiragana}\p{Katakana}\p{LB=SA}]]"
_INSIDE_WORD = rf"(?<={_WORD}){_WORD}"


def compress_filter(
    question: str, chunks: Sequence[Chunk], judge: Reranker, threshold: float, count_tokens: Callable[[str], int]
) -> Selection:
    """Drop the passages that ``judge`` scores below ``threshold``; the others keep their order.

    ``judge`` is any reranker, such as ``rerankers.cross_encoder`` or ``keep_judge``; ``threshold`` is on the scale of
    its scores. Tokens are those of the passages' texts.
    """
    hits = [Hit(chunk, 0.0, rank) for rank, chunk in enumerate(chunks, 1)]
    scores = {id(hit.chunk): hit.score for hit in judge(question, hits)}
    kept, dropped = [], []
    for chunk in chunks:
        if (score := scores[id(chunk)]) >= threshold:
            kept.append(chunk)
        else:
            dropped.append(Dropped(chunk, "filter", f"score {score:.3f} under {threshold}"))
    return _selection(chunks, kept, dropped, count_tokens)


class _Relevance(BaseModel):
    helps: bool


def keep_judge(llm: LanguageModel) -> Reranker:
    """A reranker that asks ``llm`` whether a passage helps to answer the question; scores are in [0, 1].

    If the model gives likelihoods (a local one does), the score is the probability of "Yes" against "No". Choose the
    threshold on examples: SmolLM2 prefers "No" so strongly that nothing reaches 0.5. Any other model answers in JSON
    and the score is 1 or 0; raises InvalidJSON if it does not.
    """

    def score(question: str, texts: list[str]) -> list[float]:
        prompts = _prompts(question, texts, "Does the passage help to answer the question? Answer Yes or No.")
        if gives_likelihoods(llm):
            yes, no = (llm.log_likelihoods(prompts, [word] * len(texts)) for word in ("Yes", "No"))
            return [1 / (1 + math.exp(b - a)) for a, b in zip(yes, no, strict=True)]
        return [float(complete_json(llm, each, _Relevance, max_tokens=20).helps) for each in prompts]

    return by_score(score, text_of=lambda chunk: chunk.text)


def compress_extract(
    question: str,
    chunks: Sequence[Chunk],
    extractor: Extractor,
    count_tokens: Callable[[str], int],
    neighbours: bool = True,
) -> Selection:
    """Keep the sentences that contain a quote returned by ``extractor``; each run of sentences becomes a chunk.

    A quote must occur word for word in its passage (only white space may differ) and be long enough not to match by
    chance; other quotes are listed as ``unverified_quotes``. With ``neighbours``, the sentence before is kept too if
    a kept one begins with a pronoun, a condition or an exception, and the sentence after if it begins with a
    condition or an exception (``data/openers.yaml``): without them the answer may say the opposite. A passage
    without a kept sentence is dropped.
    """
    kept: list[Chunk] = []
    dropped: list[Dropped] = []
    unverified: list[str] = []
    for chunk, quotes in zip(chunks, extractor(question, [chunk.text for chunk in chunks]), strict=True):
        spans = list(sentences(chunk.text, 0, len(chunk.text)))
        chosen: set[int] = set()
        for quote in quotes:
            if found := _find(quote, chunk.text, spans):
                chosen |= {i for i, (start, end) in enumerate(spans) if start < found[1] and found[0] < end}
            else:
                unverified.append(quote)
        if neighbours:
            chosen = _with_neighbours(chosen, [chunk.text[start:end] for start, end in spans])
        if chosen:
            kept += slice_chunk(chunk, [spans[i] for i in chosen])
        else:
            reason = "no quote occurs in it" if quotes else "no sentence of it answers"
            dropped.append(Dropped(chunk, "extract", reason))
    return _selection(chunks, kept, dropped, count_tokens, unverified)


def nearest_sentences(encoder: Encoder, count: int = 2) -> Extractor:
    """The ``count`` sentences of each passage whose vectors have the highest cosine with the question's."""

    def extract(question: str, texts: Sequence[str]) -> list[list[str]]:
        query = encoder.encode([question], kind="query")[0]
        parts = [[text[a:b].strip() for a, b in sentences(text, 0, len(text)) if text[a:b].strip()] for text in texts]
        cosines = iter(encoder.encode([part for group in parts for part in group]) @ query)
        best = [sorted((-next(cosines), i) for i in range(len(group)))[:count] for group in parts]
        return [[group[i] for _, i in pairs] for group, pairs in zip(parts, best, strict=True)]

    return extract


def model_extractor(llm: LanguageModel, max_tokens: int = 200) -> Extractor:
    """``llm`` copies the sentences that help to answer, one per line. Raises CallFailed if a call fails."""

    ask = (
        "Copy from the passage, word for word, every sentence that helps to answer the question, one on a line. "
        f"Change nothing and add nothing. If there is none, write {_NONE}."
    )

    def extract(question: str, texts: Sequence[str]) -> list[list[str]]:
        found = []
        for outcome in llm.complete_many(_prompts(question, texts, ask), max_tokens=max_tokens):
            if isinstance(outcome, CallFailed):
                raise outcome
            found.append(list(_lines(unescape(outcome.text))))
        return found

    return extract


def _prompts(question: str, texts: Sequence[str], ask: str) -> list[Prompt]:
    passages = [f"<passage>\n{escape(text, ('passage',))}\n</passage>" for text in texts]
    return [Prompt.of(f"{passage}\n\nQuestion: {question}\n\n{ask}") for passage in passages]


def _lines(text: str) -> Iterator[str]:
    """The lines of a model's answer without list marks and quotation marks around them."""
    for line in text.splitlines():
        line = re.sub(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+", "", line).strip().strip("\"'“”„«»「」").strip()
        if line and line.rstrip(".") != _NONE:
            yield line


def _selection(
    chunks: Sequence[Chunk],
    kept: Sequence[Chunk],
    dropped: Sequence[Dropped],
    count_tokens: Callable[[str], int],
    unverified: Sequence[str] = (),
) -> Selection:
    before, after = (sum(count_tokens(chunk.text) for chunk in some) for some in (chunks, kept))
    return Selection(tuple(kept), tuple(dropped), before, after, tuple(unverified))


def _find(quote: str, text: str, spans: Sequence[CharSpan]) -> CharSpan | None:
    """The range of ``quote`` in ``text``, between word boundaries; a short quote must be a whole sentence."""
    pattern = r"\s+".join(map(regex.escape, quote.split()))
    match = regex.search(f"(?!{_INSIDE_WORD}){pattern}(?!{_INSIDE_WORD})", text, regex.V1) if pattern else None
    if match and sum(map(str.isalnum, quote)) < _MIN_QUOTE_CHARACTERS:
        return match.span() if match[0] in {text[start:end].strip() for start, end in spans} else None
    return match.span() if match else None


def _with_neighbours(chosen: set[int], texts: Sequence[str]) -> set[int]:
    """``chosen`` sentence numbers, with the sentences that they refer to and those that limit them."""
    found = set(chosen)
    for i in range(1, len(texts)):
        if i - 1 in found and _openers("condition", "exception").match(normal(texts[i])):
            found.add(i)
    for i in reversed(range(1, len(texts))):
        if i in found and _openers("pronoun", "condition", "exception").match(normal(texts[i])):
            found.add(i - 1)
    return found


@functools.cache
def _openers(*kinds: str) -> re.Pattern[str]:
    """How a sentence begins in one of these ways, in any language of ``data/openers.yaml``."""
    languages = yaml.safe_load((settings.DATA / "openers.yaml").read_text(encoding="utf-8"))
    alternatives = [
        f"(?:{normal(known[kind])})" + ("" if language == "zh" else r"(?!\w)")
        for language, known in languages.items()
        for kind in kinds
    ]
    return re.compile(rf"[\W\d]*(?:{'|'.join(alternatives)})")
