"""BM25Index against rank-bm25 and bm25s: CPU seconds to index, milliseconds to search, and how both grow.

python -m tests.benchmarks.bench_bm25                    about 2 min; sizes may be given: ... bench_bm25 1000 10000

Texts are synthetic: 100 words each, drawn from 50,000 by Zipf's law; 20 queries of 8 words, drawn the same way.
rank-bm25 is BM25Okapi over words split at spaces, as on its own page; bm25s has its own tokenizer; BM25Index runs its
whole analyzer. Each size and engine runs in a process of its own, to measure its memory.
"""

import functools
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import rank_bm25

from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.types import Chunk
from tests.benchmarks.rows import row

SIZES = (10_000, 100_000)
ENGINES = ("rank-bm25", "bm25s", "BM25Index")
ROW_SIZES = (1_000, 10_000, 100_000)
WORDS, QUERIES, VOCABULARY, K = 100, 20, 50_000, 20


def synthetic_texts(n: int, words: int, rng: np.random.Generator) -> list[str]:
    """``n`` texts of ``words`` words; word i has probability proportional to 1 / i."""
    share = 1 / np.arange(1, VOCABULARY + 1)
    names = np.array([f"word{i}" for i in range(VOCABULARY)])
    return [" ".join(names[drawn]) for drawn in rng.choice(VOCABULARY, size=(n, words), p=share / share.sum())]


def measure(engine: str, size: int) -> tuple[float, float, float]:
    """CPU seconds to index, milliseconds a query (median of 20), megabytes at the peak beyond those of the texts."""
    rng = np.random.default_rng(0)
    texts = synthetic_texts(size, WORDS, rng)
    queries = synthetic_texts(QUERIES, 8, rng)
    chunks = [Chunk("doc", i, text, 0, len(text)) for i, text in enumerate(texts)]
    before = peak_megabytes()
    began = time.process_time()
    if engine == "rank-bm25":
        okapi = rank_bm25.BM25Okapi([text.split() for text in texts])

        def search(query: str) -> object:
            return np.argsort(-okapi.get_scores(query.split()))[:K]
    elif engine == "bm25s":
        import bm25s

        bare = bm25s.BM25()
        bare.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

        def search(query: str) -> object:
            return bare.retrieve(bm25s.tokenize([query], show_progress=False), k=K, show_progress=False)
    else:
        index = BM25Index(chunks)

        def search(query: str) -> object:
            return index.search(query, K)

    indexed = time.process_time() - began
    times = []
    for query in queries:
        began = time.process_time()
        search(query)
        times.append((time.process_time() - began) * 1000)
    return indexed, float(np.median(times)), peak_megabytes() - before


def peak_megabytes() -> float:
    """The most memory that this process has held."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    scale = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def apart(engine: str, size: int) -> list[float]:
    """``measure`` in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_bm25", "one", engine, str(size)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(value) for value in output.split()]


def rows() -> list[dict]:
    """BM25Index against each library, to index and to search, at three sizes."""
    found = []
    for peer in ("rank-bm25", "bm25s"):
        for what, place, unit in (("index", 0, 1.0), ("a query", 1, 1000.0)):
            for size in ROW_SIZES:
                ours, theirs = (once(name, size)[place] / unit for name in ("BM25Index", peer))
                found.append(row(f"BM25, {what}", f"{size:,} chunks", ours, peer, theirs))
    return found


once = functools.cache(apart)


def main(sizes: list[int]) -> int:
    """Print a table, and the growth from each size to the next."""
    measured: dict[tuple[str, int], list[float]] = {}
    print(f"{'chunks':>8}  {'engine':<15} {'index s':>8} {'ratio':>6} {'query ms':>9} {'ratio':>6} {'MB':>6}")
    for size in sizes:
        for engine in ENGINES:
            measured[engine, size] = apart(engine, size)
            index, query, megabytes = measured[engine, size]
            bare = measured[ENGINES[0], size]
            print(
                f"{size:>8,}  {engine:<15} {index:>8.2f} {index / bare[0]:>6.2f} "
                f"{query:>9.2f} {query / bare[1]:>6.3f} {megabytes:>6.0f}",
                flush=True,
            )
    for small, large in pairwise(sizes):
        for engine in ENGINES:
            index, query, _ = np.divide(measured[engine, large], measured[engine, small])
            print(f"{small:,} to {large:,}, {engine}: index time x {index:.1f}, query time x {query:.1f}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(*measure(sys.argv[2], int(sys.argv[3])))
    else:
        sys.exit(main([int(size) for size in sys.argv[1:]] or list(SIZES)))
