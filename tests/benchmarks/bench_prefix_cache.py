"""The prefix cache on against off: tokens prefilled and seconds for contexts of the same 20 chunks of one document.

python -m tests.benchmarks.bench_prefix_cache [--dtype float32] [--record]     3 minutes on 2 free cores

On a machine with other work set OMP_NUM_THREADS=1: the CPU seconds, which "times_faster" compares, are then fair.
"""

import argparse
import sys
import time
from typing import Any

from rag_lab import datasets, results
from rag_lab.chunking import chunk_words
from rag_lab.llm.chat_template import chat_tokens
from rag_lab.llm.generation import prefill
from rag_lab.llm.kv_cache import empty_cache
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Completion, Prompt, Usage
from rag_lab.models.number_format import number_format
from rag_lab.retrieval.contextual import context_prompt
from rag_lab.types import Chunk, Document
from tests.benchmarks.rows import peak_flops, plain_transformers, row, took, transformer_flops

COMMAND = "python -m tests.benchmarks.bench_prefix_cache"
CHUNKS = 20
MAX_TOKENS = 30
ROW_SIZES = (3, 6, 12)  # chunks of the document


def long_document() -> tuple[Document, list[Chunk]]:
    """Eight of the handbook's pages as one document of about 3,500 tokens, in 20 chunks of equal numbers of words."""
    pages = datasets.load_corpus("handbook").documents[:8]
    document = Document("handbook", "\n\n".join(f"# {page.title}\n\n{page.text}" for page in pages))
    words = len(document.text.split())
    return document, chunk_words(document, size=-(-words // CHUNKS))[:CHUNKS]


def line(way: str, completions: list[Completion], seconds: float, cpu_seconds: float) -> dict:
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


def prefill_speed(llm: LocalLLM, tokens: int) -> dict:
    """Tokens per second of prefilling ``tokens``, the better of two."""
    seconds, cpu_seconds = [], []
    for _ in range(2):
        started, cpu = time.perf_counter(), time.process_time()
        prefill(llm.model, empty_cache(), [1000] * tokens)
        seconds.append(time.perf_counter() - started)
        cpu_seconds.append(time.process_time() - cpu)
    return {
        "way": f"prefill of {tokens} tokens",
        "tokens_per_second": round(tokens / min(seconds)),
        "tokens_per_cpu_second": round(tokens / min(cpu_seconds)),
    }


def rows() -> list[dict]:
    """Contexts of the first chunks, prefix cached and in batches, against a plain ``generate`` call for each.

    The floor: the document is prefilled once, and so is each chunk's part; then its context is decoded.
    """
    dtype = number_format("language model").dtype
    llm = LocalLLM.load("smollm2", dtype=dtype, device="cpu")
    plain = plain_transformers(llm.model)
    document, chunks = long_document()
    found = []
    for size in ROW_SIZES:
        prompts = [context_prompt(document.text, chunk.text, "prefill") for chunk in chunks[:size]]
        llm.complete(context_prompt("Warm up.", "Warm up."), max_tokens=2)  # and forget the document
        ours = took(lambda p=prompts: LocalLLM("smollm2", llm.model, llm.tokenizer).complete_many(p, MAX_TOKENS), 1)
        theirs = took(lambda p=prompts: [generate(llm, plain, prompt) for prompt in p], 1)
        document_tokens = llm.count_tokens(document.text)
        rest = sum(llm.count_prompt_tokens(prompt) - document_tokens + MAX_TOKENS for prompt in prompts)
        floor = transformer_flops(llm.model.config, [document_tokens, rest]) / peak_flops(dtype)
        found.append(row("contexts of chunks", f"{size} chunks", ours, "transformers generate", theirs, floor))
    return found


def generate(llm: LocalLLM, model: Any, prompt: Prompt) -> None:
    """One greedy ``generate`` call."""
    import torch

    ids = torch.tensor([chat_tokens(llm.tokenizer, prompt).ids])
    with torch.inference_mode():
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=MAX_TOKENS, do_sample=False)


def main() -> int:
    """Print the table and the ratios; with --record also write data/results/prefix_cache.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    document, chunks = long_document()
    prompts = [context_prompt(document.text, chunk.text, "prefill") for chunk in chunks]
    table = []
    for way, cached, batched in (
        ("cache off", False, False),
        ("cache on", True, False),
        ("cache on, batches of 8", True, True),
    ):
        llm = LocalLLM.load("smollm2", dtype=options.dtype, prefix_cache=cached)
        llm.complete(context_prompt("Warm up.", "Warm up."), max_tokens=2)
        started, cpu = time.perf_counter(), time.process_time()
        if batched:
            completions = llm.complete_many(prompts, MAX_TOKENS)
        else:
            completions = [llm.complete(prompt, MAX_TOKENS) for prompt in prompts]
        table.append(line(way, completions, time.perf_counter() - started, time.process_time() - cpu))
    texts = [r.pop("texts") for r in table]
    print(f"smollm2, {llm.dtype}; {len(chunks)} chunks of a document of {llm.count_tokens(document.text)} tokens")
    for r, written in zip(table, texts, strict=True):
        r["times_fewer_tokens"] = round(table[0]["tokens_read"] / r["tokens_read"], 1)
        r["times_faster"] = round(table[0]["cpu_seconds"] / r["cpu_seconds"], 1)
        r["same_texts"] = sum(a == b for a, b in zip(texts[0], written, strict=True))
    table += [prefill_speed(llm, tokens) for tokens in (512, 2048)]
    for r in table:
        print("  ".join(f"{name}: {value}" for name, value in r.items()))
    if options.record:
        results.write_result(
            "prefix_cache",
            table,
            model=f"smollm2, {llm.dtype}",
            data=f"{len(chunks)} chunks of eight handbook pages joined, {llm.count_tokens(document.text)} tokens",
            sha256=results.digest(sorted((datasets.CORPORA / "handbook").glob("*.md"))),
            command=f"{COMMAND} --record" + (f" --dtype {options.dtype}" if options.dtype else ""),
            seconds=sum(r.get("seconds", 0.0) for r in table),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
