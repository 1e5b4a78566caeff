"""Fewer tokens from the same passages: irrelevant passages dropped, and of the others only sentences that answer."""

import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import regex
import yaml

from rag_lab import settings
from rag_lab.chunking import slice_chunk
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Prompt
from rag_lab.models.encoder import Encoder
from rag_lab.prompting.escaping import escape, normal, unescape
from rag_lab.prompting.token_budget import Dropped, Selection
from rag_lab.retrieval.rerankers import Reranker
from rag_lab.text.scripts import UNSPACED
from rag_lab.text.segmentation import sentences
from rag_lab.types import CharSpan, Chunk, Hit

# Asked with a question and passages; gives for each passage what of it answers, to be checked against it.
Extractor = Callable[[str, Sequence[str]], Sequence[Sequence[str]]]

_NONE = "NONE"
_LEAST_SIGNS = 5  # letters and digits; a shorter quote may stand anywhere by chance
_WORD = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]"


def compress_filter(
    question: str, chunks: Sequence[Chunk], judge: Reranker, threshold: float, count_tokens: Callable[[str], int]
) -> Selection:
    """Drop the passages to which ``judge`` gives a score under ``threshold``; the others stay in their order.

    ``judge`` is any reranker, such as ``reranking.cross_encoder`` or ``model_judge``; what a score means, and so the
    threshold, is its own. Tokens are those of the passages' texts.
    """
    hits = [Hit(chunk, 0.0, rank) for rank, chunk in enumerate(chunks, 1)]
    scores = {id(hit.chunk): hit.score for hit in judge(question, hits)}
    kept = [chunk for chunk in chunks if scores[id(chunk)] >= threshold]
    dropped = [
        Dropped(chunk, "filter", f"score {scores[id(chunk)]:.3f} under {threshold}")
        for chunk in chunks
        if scores[id(chunk)] < threshold
    ]
    return _selection(chunks, kept, dropped, count_tokens)


def keep_judge(llm: Any, batch_size: int = 8) -> Reranker:
    """A reranker that asks ``llm`` of each passage whether it helps to answer: the score is 0 to 1.

    For a local model it is the probability of "Yes" against "No", to be calibrated: SmolLM2 leans to No so far that
    at 0.5 nothing is kept. Any other model says so itself, as JSON, and the score is 1 or 0 (ValueError for anything
    else).
    """

    def prompt(question: str, text: str) -> Prompt:
        return Prompt.of(
            f"<passage>\n{escape(text, ('passage',))}\n</passage>\n\nQuestion: {question}\n\n"
            "Does the passage help to answer the question? Answer Yes or No."
        )

    def score(question: str, texts: list[str]) -> list[float]:
        prompts = [prompt(question, text) for text in texts]
        if isinstance(llm, LocalLLM):
            yes = llm.log_likelihoods(prompts, ["Yes"] * len(texts), batch_size)
            no = llm.log_likelihoods(prompts, ["No"] * len(texts), batch_size)
            return [1 / (1 + math.exp(b - a)) for a, b in zip(yes, no, strict=True)]
        return [float(_verdict(llm.complete(each, max_tokens=20, schema=_VERDICT).text)) for each in prompts]

    def judge(question: str, hits: Sequence[Hit]) -> list[Hit]:
        scores = score(question, [hit.chunk.text for hit in hits])
        ordered = sorted(zip(hits, scores, strict=True), key=lambda pair: -pair[1])
        return [Hit(hit.chunk, value, rank) for rank, (hit, value) in enumerate(ordered, 1)]

    return judge


_VERDICT = {
    "type": "object",
    "properties": {"helps": {"type": "boolean"}},
    "required": ["helps"],
    "additionalProperties": False,
}


def _verdict(text: str) -> bool:
    try:
        helps = json.loads(text)["helps"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f'the verdict is not {{"helps": true or false}} but {text[:80]!r}: ask again.') from error
    if not isinstance(helps, bool):
        raise ValueError(f"the verdict is {helps!r}, neither true nor false: ask again.")
    return helps


def compress_extract(
    question: str,
    chunks: Sequence[Chunk],
    extractor: Extractor,
    count_tokens: Callable[[str], int],
    neighbours: bool = True,
) -> Selection:
    """Keep the sentences that hold what ``extractor`` returns, word for word; each run of them is a chunk of its own.

    What is returned must stand in its passage (only white space may differ), else it is unverified; so is what is too
    short to tell. With ``neighbours``, the sentence before is kept where one begins with a pronoun, a condition or an
    exception, and the sentence after where that begins with a condition or an exception (``data/openers.yaml``):
    without them the answer may say the opposite. A passage of which nothing is kept is dropped.
    """
    kept: list[Chunk] = []
    dropped: list[Dropped] = []
    unverified: list[str] = []
    for chunk, quotes in zip(chunks, extractor(question, [chunk.text for chunk in chunks]), strict=True):
        spans = list(sentences(chunk.text, 0, len(chunk.text)))
        found = [(quote, _find(quote, chunk.text, spans)) for quote in quotes]
        unverified += [quote for quote, place in found if place is None]
        chosen = {
            i
            for _, place in found
            if place is not None
            for i, (start, end) in enumerate(spans)
            if start < place[1] and place[0] < end
        }
        if neighbours:
            chosen = _with_neighbours(chosen, [chunk.text[start:end] for start, end in spans])
        if chosen:
            kept += slice_chunk(chunk, [spans[i] for i in chosen])
        else:
            reason = "nothing returned stands in it" if found else "no sentence of it answers"
            dropped.append(Dropped(chunk, "extract", reason))
    return _selection(chunks, kept, dropped, count_tokens, unverified)


def nearest_sentences(encoder: Encoder, count: int = 2) -> Extractor:
    """The ``count`` sentences of each passage whose vectors have the highest cosine with the question's."""

    def extract(question: str, texts: Sequence[str]) -> list[list[str]]:
        asked = encoder.encode([question], kind="query")[0]
        parts = [[text[a:b].strip() for a, b in sentences(text, 0, len(text)) if text[a:b].strip()] for text in texts]
        near = iter(encoder.encode([part for group in parts for part in group]) @ asked)
        found = []
        for group in parts:
            scored = sorted(((float(next(near)), i) for i in range(len(group))), key=lambda pair: -pair[0])
            found.append([group[i] for _, i in scored[:count]])
        return found

    return extract


def model_extractor(llm: Any, max_tokens: int = 200) -> Extractor:
    """``llm`` copies the sentences that help to answer, a line each; a local one reads the passages side by side."""

    def prompt(question: str, text: str) -> Prompt:
        return Prompt.of(
            f"<passage>\n{escape(text, ('passage',))}\n</passage>\n\nQuestion: {question}\n\n"
            "Copy from the passage, word for word, every sentence that helps to answer the question, one on a line. "
            f"Change nothing and add nothing. If there is none, write {_NONE}."
        )

    def extract(question: str, texts: Sequence[str]) -> list[list[str]]:
        prompts = [prompt(question, text) for text in texts]
        if isinstance(llm, LocalLLM):
            completions = llm.complete_many(prompts, max_tokens=max_tokens)
        else:
            completions = [llm.complete(each, max_tokens=max_tokens) for each in prompts]
        return [list(_lines(unescape(completion.text))) for completion in completions]

    return extract


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
    """Where ``quote`` stands in ``text``, from word to word; a short one only where it is a whole sentence."""
    words = quote.split()
    if not words:
        return None
    pattern = r"\s+".join(map(regex.escape, words))
    if regex.match(_WORD, words[0], regex.V1):
        pattern = rf"(?<!{_WORD})" + pattern
    if regex.search(rf"{_WORD}\Z", words[-1], regex.V1):
        pattern += rf"(?!{_WORD})"
    match = regex.search(pattern, text, regex.V1)
    if match is None:
        return None
    if sum(map(str.isalnum, quote)) < _LEAST_SIGNS and text[match.start() : match.end()] not in {
        text[start:end].strip() for start, end in spans
    }:
        return None
    return match.span()


def _with_neighbours(chosen: set[int], texts: Sequence[str]) -> set[int]:
    """Sentence numbers with those that they lean on, and those that limit them."""
    found = set(chosen)
    for i in sorted(chosen):
        while i + 1 < len(texts) and _opens(texts[i + 1], ("condition", "exception")):
            i += 1
            found.add(i)
    for i in sorted(found, reverse=True):
        while i > 0 and _opens(texts[i], ("pronoun", "condition", "exception")):
            i -= 1
            found.add(i)
    return found


def _opens(sentence: str, kinds: tuple[str, ...]) -> bool:
    """Whether a sentence begins in one of these ways, in any of the languages known."""
    return _openers(kinds).match(normal(sentence)) is not None


@functools.cache
def _openers(kinds: tuple[str, ...]) -> re.Pattern[str]:
    languages = yaml.safe_load((settings.DATA / "openers.yaml").read_text(encoding="utf-8"))
    alternatives = [
        f"(?:{normal(known[kind])})" + ("" if language == "zh" else r"(?!\w)")
        for language, known in languages.items()
        for kind in kinds
    ]
    return re.compile(rf"[\W\d]*(?:{'|'.join(alternatives)})")
