"""What each piece of code for faster local inference gains: CPU seconds without it divided by seconds with it.

python -m tests.benchmarks.measure_kernels [--record]     3 minutes of one core

Packed linear layers, the preallocated KV cache, prefix sharing within a call and the prefix cache between calls, each
on a job with much prefill and one with much decoding (SmolLM2), and packing on an encoding job (MiniLM), in float32
and bfloat16. One thread. "On" and "off" take turns in one process, so other work on the machine hits both; "times" is
the ratio of the medians. A piece that gains less than 5% in both formats is to be deleted.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

from rag_lab import results
from rag_lab.llm import generation
from rag_lab.llm.generation import DecodingBatch, prefill
from rag_lab.llm.kv_cache import empty_cache
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Block, Prompt, Turn
from rag_lab.models.encoder import Encoder
from rag_lab.positions.key_value import KeyValueTask
from tests.benchmarks.rows import plain_transformers

COMMAND = "python -m tests.benchmarks.measure_kernels"
ROUNDS = 3
NEW_TOKENS = {"prefill-heavy": 2, "decode-heavy": 12}
ROWS, WIDTH = 8, 400  # the batch with which the KV cache is measured

Run = Callable[[], Any]


def position_prompts() -> list[Prompt]:
    """One question with the answer at three places among ten records: about 200 tokens each."""
    task = KeyValueTask(10)
    item = next(iter(task.items(1)))
    return [task.prompt(item, position) for position in (3, 6, 9)]


def document_prompts() -> list[Prompt]:
    """Three questions about one document, whose end has a cache mark."""
    document = position_prompts()[0].turns[-1].text
    questions = [f"What is the {nth} record?" for nth in ("first", "second", "last")]
    return [Prompt((Turn("user", (Block(document, cache="5m"), Block(question))),)) for question in questions]


def kv_cache_jobs(model: Any) -> Iterator[tuple[str, str, Run, Run]]:
    """Prefill of a prompt, and decoding with a batch whose prompts are in the KV cache already."""
    from transformers import DynamicCache

    prompt = [1000] * WIDTH
    filled = empty_cache()
    prefill(model, filled, prompt)

    def decode(new_cache: Callable[[], Any]) -> None:
        kv_cache = new_cache()
        for i, layer in enumerate(filled.layers):
            kv_cache.update(layer.keys.expand(ROWS, -1, -1, -1), layer.values.expand(ROWS, -1, -1, -1), i)
        batch = DecodingBatch(model, kv_cache, [WIDTH] * ROWS)
        for _ in range(NEW_TOKENS["decode-heavy"]):
            batch.forward([[1000]] * ROWS)

    runs = {"prefill-heavy": lambda new_cache: prefill(model, new_cache(), prompt), "decode-heavy": decode}
    for job, run in runs.items():
        yield "preallocated KV cache", job, partial(run, empty_cache), partial(run, DynamicCache)


def language_model_jobs(llm: LocalLLM) -> Iterator[tuple[str, str, Run, Run]]:
    """Piece, job, the run with the piece and the run without it."""
    packed, plain = (
        LocalLLM("no prefix cache", model, llm.tokenizer, prefix_cache=False)
        for model in (llm.model, plain_transformers(llm.model))
    )

    def no_sharing() -> AbstractContextManager[Any]:
        return patch.object(generation, "common_length", lambda first, second: 0)

    def answers(model: LocalLLM, new_tokens: int, context: Callable[[], Any] = nullcontext) -> Run:
        def run() -> None:
            with context():
                model.complete_many(position_prompts(), new_tokens)

        return run

    def questions(prefix_cache: bool, new_tokens: int) -> Run:
        def run() -> None:
            fresh = LocalLLM("fresh", llm.model, llm.tokenizer, prefix_cache)
            for prompt in document_prompts():
                fresh.complete(prompt, new_tokens)

        return run

    for job, n in NEW_TOKENS.items():
        yield "packed linear layers", job, answers(packed, n), answers(plain, n)
        yield "prefix sharing", job, answers(packed, n), answers(packed, n, no_sharing)
        yield "prefix cache", job, questions(True, n), questions(False, n)
    yield from kv_cache_jobs(llm.model)


def encoder_job(dtype: str) -> tuple[str, str, Run, Run]:
    """Encoding 12 texts of about 200 tokens."""
    packed, plain = (Encoder.load("minilm", dtype=dtype, device="cpu") for _ in range(2))
    plain.model = plain_transformers(plain.model)
    texts = [prompt.turns[-1].text for prompt in position_prompts()] * 4
    return "packed linear layers", "encoding", lambda: packed.encode(texts), lambda: plain.encode(texts)


def measure(dtype: str) -> Iterator[dict[str, Any]]:
    """A row for each piece and job."""
    llm = LocalLLM.load("smollm2", dtype=dtype, device="cpu")
    for piece, job, on, off in [*language_model_jobs(llm), encoder_job(dtype)]:
        seconds: dict[Run, list[float]] = {on: [], off: []}
        for _ in range(ROUNDS):
            for run, times in seconds.items():
                started = time.process_time()
                run()
                times.append(time.process_time() - started)
        with_it, without = (statistics.median(times) for times in seconds.values())
        yield {
            "piece": piece,
            "job": job,
            "dtype": dtype,
            "cpu_seconds_on": round(with_it, 3),
            "cpu_seconds_off": round(without, 3),
            "times": round(without / with_it, 2),
        }


def main() -> int:
    """Print a line per piece, job and format; with --record also write data/results/kernel_ablation.json."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started = time.perf_counter()
    rows = []
    for dtype in ("float32", "bfloat16"):
        for row in measure(dtype):
            rows.append(row)
            print("  ".join(map(str, row.values())), flush=True)
    if options.record:
        results.write_result(
            "kernel_ablation",
            rows,
            model="smollm2 and minilm, float32 and bfloat16",
            data="key-value records made with seed 0",
            sha256="",
            command=f"{COMMAND} --record",
            seconds=time.perf_counter() - started,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
