"""Encoder against sentence-transformers, late chunking against naive, and against chonkie's LateChunker, in one run.

python -m tests.benchmarks.bench_encoder [documents]     about 6 min for the default 64 documents on 2 cores

Texts: SciFact abstracts, those that answer the first claims before others; without SciFact, the built-in cities and
insurance articles. The methods in a table take turns, and the fastest of ROUNDS turns counts: wall seconds, and
CPU seconds for a machine with other work (fair only with OMP_NUM_THREADS=1, because waiting threads burn CPU).
"""

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from rag_lab import datasets
from rag_lab.chunking import chunk_corpus, chunk_tokens
from rag_lab.metrics import ndcg_at_k
from rag_lab.models import hub
from rag_lab.models.encoder import Encoder
from rag_lab.models.number_format import number_format
from rag_lab.types import Document
from tests.benchmarks.rows import peak_flops, row, transformer_flops

ROUNDS = 2
CLAIMS = 100  # of the nDCG column
TOKENS = 256  # of an abstract: both sides read this many: sentence-transformers' limit for MiniLM
SIZES = (16, 64)
CHUNK = 64  # tokens, of chonkie's table
ROW_SIZES = (8, 16, 32)  # documents
SHORT = 800  # characters: every method reads all of them; chonkie reads a text's first 256 tokens only


@dataclass(frozen=True)
class Time:
    """The quickest of several turns, in seconds, and what it returned."""

    wall: float
    cpu: float
    result: Any


def take_turns(contestants: dict[str, Callable[[], Any]]) -> dict[str, Time]:
    """Run every contestant ROUNDS times, in turn, after one turn to warm up."""
    times: dict[str, list[Time]] = {name: [] for name in contestants}
    for turn in range(ROUNDS + 1):
        for name, run in contestants.items():
            wall, cpu = time.perf_counter(), time.process_time()
            result = run()
            took = Time(time.perf_counter() - wall, time.process_time() - cpu, result)
            if turn:
                times[name].append(took)
    return {
        name: Time(min(t.wall for t in turns), min(t.cpu for t in turns), turns[0].result)
        for name, turns in times.items()
    }


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table with a title, its columns padded to their longest cell."""
    lines = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    print(f"\n{title}")
    for line in lines:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    sys.stdout.flush()


def load_texts(count: int) -> tuple[list[Document], dict[str, str], dict[str, dict[str, int]]]:
    """Documents, and claims with their relevance labels where the texts are SciFact's."""
    try:
        scifact = datasets.load_scifact()
    except FileNotFoundError as missing:
        print(f"SciFact: not there, so no nDCG ({missing})")
        texts = [d for name in ("cities", "insurance") for d in datasets.load_corpus(name).documents]
        return texts[:count], {}, {}
    answers = {id_ for claim in list(scifact.queries)[:CLAIMS] for id_ in scifact.relevance[claim]}
    chosen = sorted(scifact.documents, key=lambda d: d.id not in answers)[:count]
    kept = {d.id for d in chosen}
    claims = {q: text for q, text in list(scifact.queries.items())[:CLAIMS] if kept.issuperset(scifact.relevance[q])}
    labels = {q: dict(scifact.relevance[q]) for q in claims}
    return [replace(d, text=f"{d.title} {d.text}") for d in chosen], claims, labels


def mean_ndcg(documents: Sequence[Document], labels: dict[str, dict[str, int]], queries: Any, vectors: Any) -> float:
    """nDCG@10 over the claims, of this sample of documents only."""
    rankings = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")
    ids = [[documents[i].id for i in ranking] for ranking in rankings]
    return float(np.mean([ndcg_at_k(ranking, labels[q], 10) for ranking, q in zip(ids, labels, strict=True)]))


def rows() -> list[dict]:
    """Encoding against sentence-transformers and late chunking against chonkie, at three sizes, float32 and best."""
    from chonkie import LateChunker
    from sentence_transformers import SentenceTransformer

    path = hub.resolve("minilm").path_or_id
    plain, late = SentenceTransformer(path, device="cpu"), LateChunker(path, chunk_size=CHUNK)
    encoders = {dtype: Encoder.load("minilm", dtype=dtype, device="cpu") for dtype in dtypes()}
    found = []
    for size in ROW_SIZES:
        whole, _, _ = load_texts(size)
        documents = [replace(d, text=d.text[:SHORT]) for d in whole]
        texts = [d.text for d in documents]
        runs: dict[str, Callable[[], Any]] = {
            "plain": lambda t=texts: plain.encode(t, normalize_embeddings=True, show_progress_bar=False),
            "late": lambda t=texts: [c for text in t for c in late.chunk(text)],
        }
        for dtype, encoder in encoders.items():
            runs[f"plain {dtype}"] = lambda e=encoder, t=texts: e.encode(t, max_tokens=TOKENS)
            runs[f"late {dtype}"] = lambda e=encoder, d=documents: late_chunks(e, d)
        times = take_turns(runs)
        peers = {
            "plain": f"sentence-transformers {version('sentence-transformers')}, float32",
            "late": f"chonkie {version('chonkie')}, float32",
        }
        for dtype, encoder in encoders.items():
            floor = transformer_flops(encoder.model.config, [encoder.count_tokens(text) + 2 for text in texts])
            floor /= peak_flops(dtype)
            for way in ("plain", "late"):
                work = f"{'encode' if way == 'plain' else 'late chunking'}, {dtype}"
                peer = times[way].cpu
                found.append(row(work, f"{size} texts", times[f"{way} {dtype}"].cpu, peers[way], peer, floor))
    return sorted(found, key=lambda r: r["work"])


def late_chunks(encoder: Encoder, documents: Sequence[Document]) -> list[Any]:
    """Cutting and late chunking, about 64 tokens a chunk."""
    chunks = chunk_corpus(documents, chunk_tokens, size=CHUNK, overlap=0, tokenizer=encoder.tokenizer)
    return list(encoder.encode_late_corpus(documents, chunks))


def against_sentence_transformers(documents: Sequence[Document], claims: dict[str, str], labels: Any) -> None:
    """``encode`` of the same texts by both."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        print("\nsentence-transformers: not installed (pip install sentence-transformers), so not compared.")
        return
    peer = SentenceTransformer(hub.resolve("minilm").path_or_id, device="cpu")
    texts = [d.text for d in documents]
    ours = {f"rag_lab, {dtype}": Encoder.load("minilm", dtype=dtype, device="cpu") for dtype in dtypes()}
    name = f"sentence-transformers {version('sentence-transformers')}, float32"
    runs: dict[str, Callable[[], Any]] = {
        name: lambda: peer.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    }
    for key, encoder in ours.items():
        runs[key] = lambda encoder=encoder: encoder.encode(texts, max_tokens=TOKENS)
    times = take_turns(runs)
    questions = {key: encoder.encode(list(claims.values()), kind="query") for key, encoder in ours.items()}
    questions[name] = peer.encode(list(claims.values()), normalize_embeddings=True)
    encoder = next(iter(ours.values()))
    tokens = sum(min(encoder.count_tokens(text) + 2, TOKENS) for text in texts)
    rows = []
    for key, took in times.items():
        distance = 1 - (took.result * times[name].result).sum(axis=1).min()
        gain = (
            mean_ndcg(documents, labels, questions[key], took.result)
            - mean_ndcg(documents, labels, questions[name], times[name].result)
            if claims
            else float("nan")
        )
        rows.append(
            (
                key,
                f"{tokens / took.wall:.0f}",
                f"{tokens / took.cpu:.0f}",
                f"{times[name].wall / took.wall:.2f}",
                f"{times[name].cpu / took.cpu:.2f}",
                f"{distance:.1e}",
                f"{gain:+.4f}",
            )
        )
    columns = (
        "",
        "tokens/s",
        "tokens/CPU s",
        "speed",
        "CPU",
        "max cosine distance",
        f"nDCG@10 ({len(claims)} claims)",
    )
    print_table(f"encode: {len(texts)} texts, {tokens} tokens, at most {TOKENS} of a text", columns, rows)


def late_against_naive(documents: Sequence[Document]) -> None:
    """Time of late chunking as a share of naive encoding of the same chunks."""
    rows = []
    for dtype in dtypes():
        encoder = Encoder.load("minilm", dtype=dtype, device="cpu")
        for size in SIZES:
            for overlap in (0, size // 2):
                chunks = chunk_corpus(
                    documents, chunk_tokens, size=size, overlap=overlap, tokenizer=encoder.tokenizer
                )
                texts = [c.text for c in chunks]
                times = take_turns(
                    {
                        "naive": lambda e=encoder, t=texts: e.encode(t),
                        "late": lambda e=encoder, c=chunks: e.encode_late_corpus(documents, c),
                    }
                )
                naive, late = times["naive"], times["late"]
                seconds = (f"{naive.wall:.2f}", f"{late.wall:.2f}", f"{late.wall / naive.wall:.2f}")
                rows.append((dtype, size, overlap, len(chunks), *seconds, f"{late.cpu / naive.cpu:.2f}"))
    columns = ("", "size", "overlap", "chunks", "naive s", "late s", "late / naive", "CPU")
    print_table(f"late against naive: {len(documents)} texts, sizes in tokens", columns, rows)


def against_chonkie(documents: Sequence[Document]) -> None:
    """Cutting and late chunking by both, each with a cutter of its own, about 64 tokens a chunk."""
    try:
        from chonkie import LateChunker
    except ImportError:
        print("\nchonkie: not installed (pip install chonkie sentence-transformers), so not compared.")
        return
    peer = LateChunker(hub.resolve("minilm").path_or_id, chunk_size=CHUNK)
    ours = {f"rag_lab, {dtype}": Encoder.load("minilm", dtype=dtype, device="cpu") for dtype in dtypes()}

    name = f"chonkie {version('chonkie')}, float32"
    runs: dict[str, Callable[[], Any]] = {name: lambda: [c for d in documents for c in peer.chunk(d.text)]}
    for key, encoder in ours.items():
        runs[key] = lambda encoder=encoder: late_chunks(encoder, documents)
    times = take_turns(runs)
    rows = [
        (
            key,
            len(took.result),
            f"{took.wall:.2f}",
            f"{times[name].wall / took.wall:.2f}",
            f"{times[name].cpu / took.cpu:.2f}",
        )
        for key, took in times.items()
    ]
    print_table(f"late chunking with the cutting: {len(documents)} texts", ("", "chunks", "s", "speed", "CPU"), rows)


def dtypes() -> tuple[str, ...]:
    """float32, and bfloat16 where this CPU computes it."""
    return tuple(dict.fromkeys(("float32", number_format("encoder").dtype)))


def main(arguments: Sequence[str]) -> int:
    """Print the tables."""
    documents, claims, labels = load_texts(int(arguments[0]) if arguments else 64)
    try:
        cpu = torch.cpu.get_capabilities()["cpu_name"]
    except (AttributeError, KeyError):
        cpu = "unknown CPU"
    print(
        f"torch {version('torch')}, transformers {version('transformers')}, {torch.get_num_threads()} threads, {cpu}"
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*texts are longer than 256 tokens")  # so does the peer, silently
        against_sentence_transformers(documents, claims, labels)
    late_against_naive(documents)
    against_chonkie(documents)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
