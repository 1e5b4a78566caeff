"""Terms for BM25 from text in any script, and from code."""

import json
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import rank_bm25
import regex
from numpy.typing import NDArray

from rag_lab.retrieval.ranking import best_hits, load_chunks, save_chunks, write_text
from rag_lab.text.scripts import NGRAM_SCRIPTS
from rag_lab.types import Chunk, Hit, Where

Engine = Literal["rank_bm25", "bm25s"]


class BM25Index:
    """BM25 over ``chunk.contextual_text``, with terms from ``tokens.tokenize``.

    The weight of a term is Lucene's: ln(1 + (N - n + 0.5) / (n + 0.5)) · tf / (tf + k1 · (1 - b + b · length / mean
    length)), as in Kamphuis et al. 2020 ("Which BM25 Do You Mean?"), for both engines. It is above zero for every
    term a chunk holds, zero for every other, and below the IDF however often a term is repeated. None of rank-bm25's
    own variants is all of that: Okapi's IDF is zero for a term in half of the chunks and negative beyond, Plus gives
    a score to chunks without the term, and L, as written there, grows with the count without bound.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        engine: Engine = "rank_bm25",
        stem: str | None = None,
        stop_words: frozenset[str] = frozenset(),
        k1: float = 1.5,
        b: float = 0.75,
    ) -> None:
        """``engine`` "bm25s" (an extra) needs less memory when large; ``stem`` and ``stop_words`` as in ``tokenize``.

        ValueError for no chunks, none with a term, or an unknown engine; ImportError for an engine or stemmer that
        is not installed.
        """
        if not chunks:
            raise ValueError("there are no chunks to index.")
        if engine not in ("rank_bm25", "bm25s"):
            raise ValueError(f"there is no engine {engine!r}; there are rank_bm25 and bm25s.")
        self.chunks = tuple(chunks)
        self.options = {"engine": engine, "stem": stem, "stop_words": sorted(stop_words), "k1": k1, "b": b}
        self._tokenize = partial(analyze, stem=stem, stop_words=frozenset(stop_words))
        texts = [self._tokenize(chunk.contextual_text) for chunk in self.chunks]
        if not any(texts):
            raise ValueError(f"none of the {len(texts)} chunks holds a letter or digit: there is nothing to index.")
        self._scores = (_bm25s_scores if engine == "bm25s" else _rank_bm25_scores)(texts, k1, b)

    def search(self, text: str, k: int, where: Where | None = None) -> list[Hit]:
        """The ``k`` best of the chunks that hold a term of ``text`` and satisfy ``where``; often fewer, or none.

        Equal scores in the order indexed. A term that stands twice in ``text`` counts twice. ValueError for k < 1.
        """
        scores = self._scores(self._tokenize(text, query=True))
        return best_hits(self.chunks, scores, np.flatnonzero(scores > 0), k, where)

    def save(self, folder: str | Path) -> None:
        """Write ``chunks.jsonl`` and ``bm25.json`` (the options) to ``folder``; each replaces an older one whole."""
        digest = save_chunks(self.chunks, Path(folder))
        write_text(Path(folder) / "bm25.json", json.dumps(self.options | {"chunks_sha256": digest}))

    @classmethod
    def load(cls, folder: str | Path) -> "BM25Index":
        """What ``save`` wrote, indexed anew. FileNotFoundError and ValueError as for ``DenseIndex.load``."""
        options = json.loads((Path(folder) / "bm25.json").read_text(encoding="utf-8"))
        chunks = load_chunks(Path(folder), options.pop("chunks_sha256"))
        return cls(chunks, **options | {"stop_words": frozenset(options["stop_words"])})


def _rank_bm25_scores(texts: list[list[str]], k1: float, b: float) -> Callable[[list[str]], NDArray[Any]]:
    """Scores of a query's terms for every text, from what rank-bm25 counts.

    rank-bm25's own scoring looks every term up in every text; postings (the texts that hold a term, and the term's
    weight in each) are built once and looked up once a term.
    """
    counts = rank_bm25.BM25Okapi(texts)
    vocabulary = {term: i for i, term in enumerate(counts.idf)}
    sizes = np.fromiter(map(len, counts.doc_freqs), np.int64)
    terms = np.fromiter((vocabulary[t] for text in counts.doc_freqs for t in text), np.int32, sizes.sum())
    tf = np.fromiter((n for text in counts.doc_freqs for n in text.values()), np.float64, sizes.sum())
    holders = np.repeat(np.arange(len(texts)), sizes)
    n = np.bincount(terms, minlength=len(vocabulary))
    idf = np.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
    length = np.array(counts.doc_len)[holders]
    weights = idf[terms] * tf / (tf + k1 * (1 - b + b * length / counts.avgdl))
    order = np.argsort(terms, kind="stable")
    holders, weights = holders[order], weights[order]
    ends = np.cumsum(n)

    def scores(query: list[str]) -> NDArray[Any]:
        total = np.zeros(len(texts))
        for i in (vocabulary[term] for term in query if term in vocabulary):
            postings = slice(ends[i] - n[i], ends[i])
            total[holders[postings]] += weights[postings]
        return total

    return scores


def _bm25s_scores(texts: list[list[str]], k1: float, b: float) -> Callable[[list[str]], NDArray[Any]]:
    try:
        import bm25s
    except ImportError as error:
        raise ImportError('engine="bm25s" needs bm25s: pip install bm25s, or leave the engine out.') from error
    index = bm25s.BM25(method="lucene", k1=k1, b=b)
    index.index(texts, show_progress=False)

    def scores(query: list[str]) -> NDArray[Any]:
        known = index.get_tokens_ids(query)
        return index.get_scores_from_ids(known) if known else np.zeros(len(texts))

    return scores


# Lucene's EnglishAnalyzer drops these 33.
_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
    "this to was will with"
)
ENGLISH_STOP_WORDS = frozenset(_WORDS.split())

_RUN = regex.compile(rf"[{NGRAM_SCRIPTS}]+|[^{NGRAM_SCRIPTS}]+")
_NGRAM_START = regex.compile(rf"[{NGRAM_SCRIPTS}]")
_TOKEN = regex.compile(r"\d+(?:[.,]\d+)+|\w+")  # this \w holds combining marks and the ZWNJ, unlike that of ``re``
# Where an identifier, a decimal number or a Persian compound comes apart: get|HTTP|Server, max_|size, 3.|85.
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

    What writers of one language spell in two ways is folded: compatibility forms (NFKC), digits of all scripts,
    commas that group digits, Hebrew points, Arabic harakat, hamza carriers and the two forms of yeh and kaf (in
    Lucene's direction), Russian ё. Identifiers (camelCase, snake_case), decimal numbers and Persian words with a
    ZWNJ give their parts and the whole, so that either finds them.

    Scripts without spaces (and Korean, whose particles are attached) are cut into overlapping pairs of characters,
    which stand for words without needing a dictionary of them; single characters match far too much. A text to be
    indexed gives its single characters too, for a ``query`` of one character; other queries ask for pairs only.

    ``stop_words`` are dropped before stemming; ``stem`` names a Snowball stemmer ("english", "porter", "russian",
    …). ImportError where PyStemmer is needed and absent, ValueError for a stemmer that it does not have.
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
    """The parts of a token, if it has several of two characters or more, and the token itself: folded, stemmed."""
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
    """A new stemmer: they are cheap to make, and one must not be shared by threads."""
    try:
        import Stemmer
    except ImportError as error:
        raise ImportError("stemming needs PyStemmer: pip install PyStemmer, or leave stem=None.") from error
    if name not in Stemmer.algorithms():
        raise ValueError(f"there is no stemmer {name!r}; there are: {', '.join(Stemmer.algorithms())}.")
    return Stemmer.Stemmer(name)
