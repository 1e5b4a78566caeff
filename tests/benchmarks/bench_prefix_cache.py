"""The prefix cache on against off: tokens read and seconds for situating the same 20 chunks of one document.

python -m tests.benchmarks.bench_prefix_cache [--dtype float32] [--record]     3 minutes on 2 free cores

On a machine with other work set OMP_NUM_THREADS=1: the CPU seconds, which "times_faster" compares, are then fair.
"""

import argparse
import sys
import time

from rag_lab import datasets, papers
from rag_lab.chunking import chunk_words
from rag_lab.contextual import context_prompt
from rag_lab.decoding import Reading
from rag_lab.documents import Chunk, Document
from rag_lab.llm import Completion, LocalLLM, Usage
from rag_lab.prefix_cache import empty_state

COMMAND = "python -m tests.benchmarks.bench_prefix_cache"
CHUNKS = 20
MAX_TOKENS = 30


def long_document() -> tuple[Document, list[Chunk]]:
    """Eight of the handbook's pages as one document of about 3,500 tokens, in 20 chunks of equal numbers of words."""
    pages = datasets.load_corpus("handbook").documents[:8]
    document = Document("handbook", "\n\n".join(f"# {page.title}\n\n{page.text}" for page in pages))
    words = len(document.text.split())
    return document, chunk_words(document, size=-(-words // CHUNKS))[:CHUNKS]


def row(way: str, completions: list[Completion], seconds: float, cpu_seconds: float) -> dict:
    usage = sum((completion.usage for completion in completions), Usage())
    return {
        "way": way,
        "tokens_read": usage.input_tokens + usage.cache_write_tokens,
        "tokens_from_cache": usage.cache_read_tokens,
        "tokens_written": usage.output_tokens,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "texts": [completion.text for completion in completions],
    }


def reading_speed(llm: LocalLLM, tokens: int) -> dict:
    """Tokens a second of reading ``tokens`` in one go, the better of two."""
    seconds, cpu_seconds = [], []
    for _ in range(2):
        started, cpu = time.perf_counter(), time.process_time()
        Reading(llm.model, empty_state()).read([[1000] * tokens])
        seconds.append(time.perf_counter() - started)
        cpu_seconds.append(time.process_time() - cpu)
    return {
        "way": f"reading {tokens} tokens",
        "tokens_per_second": round(tokens / min(seconds)),
        "tokens_per_cpu_second": round(tokens / min(cpu_seconds)),
    }


def main() -> int:
    """Print the table and the ratios; with --record also write data/results/prefix_cache.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    document, chunks = long_document()
    prompts = [context_prompt(document.text, chunk.text, "beginning") for chunk in chunks]
    rows = []
    for way, cached, side_by_side in (
        ("cache off", False, False),
        ("cache on", True, False),
        ("cache on, 8 side by side", True, True),
    ):
        llm = LocalLLM.load("smollm2", dtype=options.dtype, prefix_cache=cached)
        llm.complete(context_prompt("Warm up.", "Warm up."), max_tokens=2)
        started, cpu = time.perf_counter(), time.process_time()
        if side_by_side:
            completions = llm.complete_many(prompts, MAX_TOKENS)
        else:
            completions = [llm.complete(prompt, MAX_TOKENS) for prompt in prompts]
        rows.append(row(way, completions, time.perf_counter() - started, time.process_time() - cpu))
    texts = [r.pop("texts") for r in rows]
    print(f"smollm2, {llm.dtype}; {len(chunks)} chunks of a document of {llm.count_tokens(document.text)} tokens")
    for r, written in zip(rows, texts, strict=True):
        r["times_fewer_tokens"] = round(rows[0]["tokens_read"] / r["tokens_read"], 1)
        r["times_faster"] = round(rows[0]["cpu_seconds"] / r["cpu_seconds"], 1)
        r["same_texts"] = sum(a == b for a, b in zip(texts[0], written, strict=True))
    rows += [reading_speed(llm, tokens) for tokens in (512, 2048)]
    for r in rows:
        print("  ".join(f"{name}: {value}" for name, value in r.items()))
    if options.record:
        papers.write_result(
            "prefix_cache",
            rows,
            model=f"smollm2, {llm.dtype}",
            data=f"{len(chunks)} chunks of eight handbook pages joined, {llm.count_tokens(document.text)} tokens",
            sha256=papers.digest(sorted((datasets.CORPORA / "handbook").glob("*.md"))),
            command=f"{COMMAND} --record" + (f" --dtype {options.dtype}" if options.dtype else ""),
            seconds=sum(r.get("seconds", 0.0) for r in rows),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
