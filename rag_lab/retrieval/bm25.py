"""BM25, and its analyzer: terms from text in any script, and from code."""

import json
import unicodedata
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import rank_bm25
import regex

from rag_lab.retrieval.indexes import load_chunks, save_chunks, top_k
from rag_lab.storage import write_atomic
from rag_lab.text.scripts import NGRAM_SCRIPTS
from rag_lab.types import Chunk, Hit, Where


class BM25Index:
    """BM25 over ``chunk.contextual_text``, with terms from ``analyze``.

    The weight of a term is Lucene's: ln(1 + (N - n + 0.5) / (n + 0.5)) · tf / (tf + k1 · (1 - b + b · length / mean
    length)), as in Kamphuis et al. 2020 ("Which BM25 Do You Mean?"). It is above zero for every term of a chunk, zero
    for every other, and below the IDF however often a term is repeated. rank-bm25 counts the terms, but none of its
    own variants is all of that: Okapi's IDF is zero for a term in half of the chunks and negative beyond, Plus scores
    chunks without the term, and L, as implemented there, grows with the count without bound.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        stem: str | None = None,
        stop_words: frozenset[str] = frozenset(),
        k1: float = 1.5,
        b: float = 0.75,
    ) -> None:
        """``stem`` and ``stop_words`` are as in ``analyze``, whose errors it raises.

        Raises ValueError if there are no chunks, or none with a term.
        """
        if not chunks:
            raise ValueError("There are no chunks to index.")
        self.chunks = tuple(chunks)
        self.options = {"stem": stem, "stop_words": sorted(stop_words), "k1": k1, "b": b}
        self._analyze = partial(analyze, stem=stem, stop_words=frozenset(stop_words))
        texts = [self._analyze(chunk.contextual_text) for chunk in self.chunks]
        if not any(texts):
            raise ValueError(f"None of the {len(texts)} chunks has a letter or digit: there is nothing to index.")
        # rank-bm25's own scoring looks up every term in every text. Postings (the texts that contain a term, and its
        # weight in each) are built once instead, and looked up once per term of the query.
        counts = rank_bm25.BM25Okapi(texts)
        self._vocabulary = {term: i for i, term in enumerate(counts.idf)}
        sizes = np.fromiter(map(len, counts.doc_freqs), np.int64)
        terms = np.fromiter((self._vocabulary[t] for text in counts.doc_freqs for t in text), np.int32, sizes.sum())
        tf = np.fromiter((n for text in counts.doc_freqs for n in text.values()), np.float64, sizes.sum())
        holders = np.repeat(np.arange(len(texts)), sizes)
        n = np.bincount(terms, minlength=len(self._vocabulary))
        idf = np.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
        length = np.array(counts.doc_len)[holders]
        weights = idf[terms] * tf / (tf + k1 * (1 - b + b * length / counts.avgdl))
        order = np.argsort(terms, kind="stable")
        self._holders, self._weights = holders[order], weights[order]
        self._ends = np.cumsum(n)
        self._starts = self._ends - n

    def search(self, text: str, k: int, where: Where | None = None) -> list[Hit]:
        """The ``k`` best of the chunks that share a term with ``text`` and satisfy ``where``: often fewer, or none.

        Ties are in the order indexed. A term that occurs twice in ``text`` counts twice. Raises ValueError if k < 1.
        """
        scores = np.zeros(len(self.chunks))
        for term in self._analyze(text, query=True):
            if (i := self._vocabulary.get(term)) is not None:
                postings = slice(self._starts[i], self._ends[i])
                scores[self._holders[postings]] += self._weights[postings]
        return top_k(self.chunks, scores, np.flatnonzero(scores > 0), k, where)

    def save(self, folder: str | Path) -> None:
        """Write ``chunks.jsonl`` and ``bm25.json`` (the options) to ``folder``, each atomically."""
        digest = save_chunks(self.chunks, Path(folder))
        write_atomic(Path(folder) / "bm25.json", json.dumps(self.options | {"chunks_sha256": digest}))

    @classmethod
    def load(cls, folder: str | Path) -> "BM25Index":
        """What ``save`` wrote, indexed again. Raises FileNotFoundError and ValueError as ``DenseIndex.load`` does."""
        options = json.loads((Path(folder) / "bm25.json").read_text(encoding="utf-8"))
        chunks = load_chunks(Path(folder), options.pop("chunks_sha256"))
        return cls(chunks, **options | {"stop_words": frozenset(options["stop_words"])})


# The 33 of Lucene's EnglishAnalyzer.
_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
    "this to was will with"
)
ENGLISH_STOP_WORDS = frozenset(_WORDS.split())

_RUN = regex.compile(rf"[{NGRAM_SCRIPTS}]+|[^{NGRAM_SCRIPTS}]+")
_NGRAM_START = regex.compile(rf"[{NGRAM_SCRIPTS}]")
_TOKEN = regex.compile(r"\d+(?:[.,]\d+)+|\w+")  # this \w holds combining marks and the ZWNJ, unlike that of ``re``
# Where an identifier, a decimal number or a Persian compound is split: get|HTTP|Server, max_|size, 3.|85.
_JOINT = regex.compile(r"(?V1)(?<=\p{Ll})(?=\p{Lu})|(?<=[\p{Lu}\d])(?=\p{Lu}\p{Ll}{2})|[_.,\u200c]+")
_POSSESSIVE = regex.compile(r"['’]s\b", regex.IGNORECASE)
_GROUPING = regex.compile(r"(?<=\d)[,٬](?=\d{3}(?!\d))")
_HEBREW_QUOTE = regex.compile(r"(?<=\p{Hebrew})[\"'’״׳](?=\p{Hebrew})")
# Niqqud, harakat, hamza and madda; variation selectors; characters that only format, but for the ZWNJ.
_UNSEEN = regex.compile(
    r"(?V1)[[\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\ufb1e]&&\p{Mn}]"
    r"|[\ufe00-\ufe0f\u20e3]|[\p{Cf}--\u200c]"
)
_DIGIT = regex.compile(r"(?V1)[\p{Nd}--0-9]")
_FOLD = str.maketrans({"ی": "ي", "ى": "ي", "ک": "ك", "ة": "ه", "ە": "ه", "ـ": None, "٫": ".", "ё": "е", "Ё": "Е"})


def analyze(
    text: str, stem: str | None = None, stop_words: frozenset[str] = frozenset(), query: bool = False
) -> list[str]:
    """The terms of a text, in order, case folded.

    Two spellings of the same word give the same term: compatibility forms (NFKC), digits of all scripts, commas that
    group digits, Hebrew points, Arabic harakat, hamza carriers and the two forms of yeh and kaf (in Lucene's
    direction), Russian ё. Identifiers (camelCase, snake_case), decimal numbers and Persian words with a ZWNJ give
    their parts and the whole, so that either finds them.

    Scripts without spaces (and Korean, whose particles are attached) are split into overlapping pairs of characters,
    which approximate words without a dictionary; single characters match far too much. A text to be indexed gives its
    single characters too, so that a ``query`` of one character finds it; longer queries give pairs only.

    ``stop_words`` are dropped before stemming; ``stem`` names a Snowball stemmer ("english", "porter", "russian", …).
    Raises ImportError if PyStemmer is needed and not installed, ValueError if it has no such stemmer.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _UNSEEN.sub("", unicodedata.normalize("NFKD", text)))
        text = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0], digit[0])), text.translate(_FOLD))
        text = _HEBREW_QUOTE.sub("", text)
    text = _GROUPING.sub("", _POSSESSIVE.sub("", text))
    terms: list[str] = []
    for token in _TOKEN.findall(text):
        if token.isascii():
            terms += _terms(token, stem, stop_words)
            continue
        for run in _RUN.findall(token):
            if _NGRAM_START.match(run):
                terms += [] if query and len(run) > 1 else run
                terms += map("".join, pairwise(run))
            else:
                terms += _terms(run, stem, stop_words)
    return terms


@lru_cache(1 << 17)
def _terms(token: str, stem: str | None, stop_words: frozenset[str]) -> tuple[str, ...]:
    """The parts of a token (of two characters or more) and the whole token: folded and stemmed."""
    if not any(map(str.isalnum, token)):
        return ()
    parts = [part for part in _JOINT.split(token) if part]
    whole = token.replace("\u200c", "").casefold()
    words = [part.casefold() for part in parts if len(part) > 1 and part != token]
    words = [word for word in [*words, whole] if word not in stop_words]
    if stem is None:
        return tuple(words)
    return tuple(_stemmer(stem).stemWords(words))


def _stemmer(name: str) -> Any:
    """A new stemmer: they are cheap, and threads must not share one."""
    try:
        import Stemmer
    except ImportError as error:
        raise ImportError("Stemming needs PyStemmer: pip install PyStemmer, or leave stem=None.") from error
    if name not in Stemmer.algorithms():
        raise ValueError(f"There is no stemmer {name!r}; there are: {', '.join(Stemmer.algorithms())}.")
    return Stemmer.Stemmer(name)
