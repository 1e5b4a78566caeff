"""Notebook 06's simple guard and hand-read exceptions, and its checks: None if the attempt is right, else a hint."""

import unicodedata
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import yaml

from rag_lab.chunking import chunk_headings
from rag_lab.exercises.hints import number_hint
from rag_lab.metrics import paired_difference
from rag_lab.prompting.compression import compress_extract
from rag_lab.prompting.escaping import escape
from rag_lab.prompting.token_budget import context_budget
from rag_lab.settings import DATA
from rag_lab.text.segmentation import sentences
from rag_lab.types import Chunk, Corpus

# Exercise 2: tokens.
WINDOW, SYSTEM, HISTORY, QUESTION, TEMPLATE, MAX_OUTPUT = 4_096, 250, 600, 40, 30, 500

# Exercise 3: tokens of the ranked passages' texts, of a source's tags, and of what the first and third both hold.
TEXTS, TAGS, SHARED, LEFT = (120, 200, 90, 60), 20, 40, 300

EXCEPTIONS = DATA / "handbook_exceptions.yaml"  # exercise 4

_LOOK_ALIKES = str.maketrans("сеоѕрᴜ＜﹤‹〈⟨", "ceospu<<<<<")

Rule = Callable[[Sequence[str], int], Collection[int]]


@dataclass(frozen=True)
class Case:
    """A section and its sentences; the numbers of the one that states a rule and of the one that limits it."""

    chunk: Chunk
    sentences: tuple[str, ...]
    rule: int
    exception: int


def naive_escape(text: str) -> str:
    """The first idea: replace the exact closing tag."""
    return text.replace("</source>", "&lt;/source>")


def closing_tags(text: str) -> int:
    """Closing tags of a source for a lenient reader, who ignores case, spacing and look-alike characters."""
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_LOOK_ALIKES)
    return "".join(sign for sign in folded if sign.isalnum() or sign in "</>&;").count("</source")


def exception_cases(corpus: Corpus) -> list[Case]:
    """``EXCEPTIONS`` found in the handbook. Raises ValueError if a sentence is not there."""
    pages = {document.id: document for document in corpus.documents}
    listed = yaml.safe_load(EXCEPTIONS.read_text(encoding="utf-8"))
    cases = []
    for page, rule, exception in [(page, *pair) for page, pairs in listed.items() for pair in pairs]:
        for chunk in chunk_headings(pages[page], size=None):
            spans = sentences(chunk.text, 0, len(chunk.text))
            texts = tuple(text for start, end in spans if (text := chunk.text[start:end].strip()))
            found = [[i for i, text in enumerate(texts) if text.startswith(part)] for part in (rule, exception)]
            if all(found):
                cases.append(Case(chunk, texts, found[0][0], found[1][0]))
                break
        else:
            raise ValueError(f"no section of {page} holds both {rule!r} and {exception!r}")
    return cases


def library_rule(texts: Sequence[str], answering: int, neighbours: bool = True) -> set[int]:
    """The sentences that ``compress_extract`` keeps if number ``answering`` is the one that answers."""
    text = " ".join(texts)
    chunk = Chunk("section", 0, text, 0, len(text))
    kept = compress_extract("", [chunk], lambda _, passages: [[texts[answering]]], len, neighbours).chunks
    return {i for i, one in enumerate(texts) if any(one in piece.text for piece in kept)}


def check_attack(attempt: str) -> str | None:
    """A text that still holds a closing tag, for a lenient reader, after ``naive_escape``."""
    if not closing_tags(attempt):
        return "a lenient reader sees no closing tag in it: begin with </source> and change as little as you can"
    if not closing_tags(naive_escape(attempt)):
        return "naive_escape stops it: it looks for the exact characters </source>; what else reads the same?"
    print(f"after escaping.escape: {closing_tags(escape(attempt, ('source',)))} closing tags are left")
    return None


def check_left(attempt: int) -> str | None:
    """Tokens left for sources in ``WINDOW``."""
    right = context_budget(WINDOW, SYSTEM, HISTORY, QUESTION, MAX_OUTPUT, TEMPLATE)
    slips: dict[float, str] = {
        right + MAX_OUTPUT: "the answer is written into the same window: keep room for its longest form",
        right + TEMPLATE: "the layout's tags and the chat format take tokens too",
        right + HISTORY: "the earlier turns are sent again with every request",
    }
    return number_hint(attempt, right, slips, "the window less each of the five other numbers", rel=0)


def check_fit(attempt: Sequence[int]) -> str | None:
    """The ranks (from 1) of ``TEXTS`` that fit into ``LEFT`` tokens if an overlap is paid once."""
    slips = {
        (1,): "a passage that does not fit stops nothing: go on down the ranking",
        (1, 3): "1 and 3 become one passage: the tokens that both hold are paid once, and so are the tags",
        (1, 2): "with its tags, does the second still fit?",
        (1, 2, 3, 4): "all together are over the budget",
    }
    given = tuple(sorted(attempt))
    return None if given == (1, 3, 4) else slips.get(given, "go down the ranking and add up texts and tags")


def check_rule(attempt: Rule, corpus: Corpus, count_tokens: Callable[[str], int]) -> str | None:
    """``attempt(sentences, i)``: the sentences to keep if number i answers; more exceptions than the library's."""
    cases = exception_cases(corpus)
    kept: dict[str, list[bool]] = {}
    for name, rule in {"the library's": library_rule, "yours": attempt}.items():
        chosen = [set(rule(case.sentences, case.rule)) for case in cases]
        for case, numbers in zip(cases, chosen, strict=True):
            if case.rule not in numbers or not numbers <= set(range(len(case.sentences))):
                return f"for sentence {case.rule} of {len(case.sentences)} it returned {sorted(numbers)}"
        kept[name] = [case.exception in numbers for case, numbers in zip(cases, chosen, strict=True)]
        share = kept_share(cases, chosen, count_tokens)
        print(f"{name}: {sum(kept[name])} of {len(cases)} exceptions, {share:.0%} of the sections' tokens")
    gain = paired_difference(kept["yours"], kept["the library's"])
    print(f"yours − the library's: {gain:+.2f} of the exceptions")
    if share > 0.75:
        return "that keeps more than three quarters of the tokens: it hardly compresses"
    if gain.value <= 0:
        return "it keeps no more exceptions than the library's rule: print those that it loses"
    return None


def kept_share(cases: Sequence[Case], chosen: Sequence[Collection[int]], count_tokens: Callable[[str], int]) -> float:
    """Tokens of the chosen sentences as a share of those of all sentences of the cases' sections."""
    tokens = [[count_tokens(text) for text in case.sentences] for case in cases]
    left = sum(counts[i] for counts, numbers in zip(tokens, chosen, strict=True) for i in numbers)
    return left / sum(map(sum, tokens))
