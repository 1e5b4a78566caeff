"""A position curve's answers and likelihoods against transformers, one prompt after the other, on the same prompts.

python -m tests.benchmarks.bench_positions [--dtype bfloat16] [--record]

The peer is transformers' own model: one ``generate`` call per prompt (same weights, dtype, threads, longest answer
and stop) and one forward pass for the likelihood of the gold answer. "times" compares CPU seconds, which other work
on the machine affects least; "times_generate_alone" compares with the peer's answers only, although this side still
computes likelihoods; "times_by_sharing" with a peer whose layers are packed as ours are, so that only the gain of
computing shared prefixes once and in batches is left. Both sides are warmed up with one prompt. The documents need
the nq-oracle data (RAG_LAB_DATA); without them only the key-value settings are run.
"""

import argparse
import sys
import time
from typing import Any

from rag_lab import results
from rag_lab.llm.chat_template import chat_tokens, text_tokens
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Prompt
from rag_lab.positions.conditions import STOP
from rag_lab.positions.curves import Task
from rag_lab.positions.key_value import KeyValueTask
from rag_lab.positions.multi_document import MultiDocumentTask
from tests.benchmarks.rows import plain_transformers

COMMAND = "python -m tests.benchmarks.bench_positions"
SETTINGS: list[tuple[str, list[int], int]] = [
    ("20 sentences", [0, 2, 5, 10, 15, 17, 19], 3),
    ("20 sentences", list(range(20)), 2),
    ("40 sentences", list(range(0, 40, 2)), 1),
    ("10 documents", [0, 4, 9], 9),
    ("10 documents", list(range(10)), 2),
    ("20 documents", [0, 4, 9, 14, 19], 3),
]


def task_of(setting: str) -> Task:
    size, form = setting.split()
    return KeyValueTask(int(size)) if form == "sentences" else MultiDocumentTask.natural_questions(int(size))


def generate(llm: LocalLLM, model: Any, prompt: Prompt, max_tokens: int) -> str:
    """One greedy ``generate`` call that ends at a line break, as the answers here do."""
    import torch
    from transformers import StoppingCriteria, StoppingCriteriaList

    class AtLineBreak(StoppingCriteria):
        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            return torch.tensor(["\n" in llm.tokenizer.decode(row[-1]) for row in input_ids])

    ids = torch.tensor([chat_tokens(llm.tokenizer, prompt).ids])
    with torch.inference_mode():
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=max_tokens,
            do_sample=False,
            stopping_criteria=StoppingCriteriaList([AtLineBreak()]),
        )[0, ids.shape[1] :]
    return llm.tokenizer.decode(output, skip_special_tokens=True).split("\n")[0]


def likelihood(llm: LocalLLM, model: Any, prompt: Prompt, gold: str) -> float:
    """One forward pass over prompt and gold."""
    import torch

    answer = text_tokens(llm.tokenizer, gold)
    ids = torch.tensor([chat_tokens(llm.tokenizer, prompt).ids + answer])
    with torch.inference_mode():
        logits = model(ids, logits_to_keep=len(answer) + 1).logits[0, :-1].float().log_softmax(-1)
    return logits.gather(1, torch.tensor(answer)[:, None]).sum().item()


def measure(llm: LocalLLM, setting: str, positions: list[int], n: int) -> dict[str, Any]:
    """Seconds of both ways over the same prompts, and whether they agree."""
    task = task_of(setting)
    pairs = [(task.prompt(item, p), task.gold(item)) for item in task.items(n) for p in positions]
    prompts, golds = [p for p, _ in pairs], [g for _, g in pairs]

    list(llm.generate_and_score(prompts[:1], golds[:1], task.max_tokens, STOP))  # warm up
    started, cpu = time.perf_counter(), time.process_time()
    rated_here = llm.generate_and_score(prompts, golds, task.max_tokens, STOP)
    here = {i: (completion.text, nats) for i, completion, nats in rated_here}
    seconds, ours = time.perf_counter() - started, time.process_time() - cpu

    def peer(model: Any) -> tuple[list[str], list[float], float, float, float]:
        generate(llm, model, prompts[0], task.max_tokens)  # warm up
        likelihood(llm, model, *pairs[0])
        started, cpu = time.perf_counter(), time.process_time()
        texts = [generate(llm, model, prompt, task.max_tokens) for prompt in prompts]
        generated = time.process_time() - cpu
        rated = [likelihood(llm, model, prompt, gold) for prompt, gold in pairs]
        return texts, rated, generated, time.process_time() - cpu, time.perf_counter() - started

    texts, rated, generated, theirs, peer_seconds = peer(plain_transformers(llm.model))
    packed = peer(llm.model)[3]
    return {
        "setting": setting,
        "positions": positions,
        "prompts": len(prompts),
        "tokens_a_prompt": round(sum(map(llm.count_prompt_tokens, prompts)) / len(prompts)),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(ours, 1),
        "peer_seconds": round(peer_seconds, 1),
        "peer_cpu_seconds": round(theirs, 1),
        "peer_cpu_seconds_generate": round(generated, 1),
        "times": round(theirs / ours, 2),
        "times_generate_alone": round(generated / ours, 2),
        "times_by_sharing": round(packed / ours, 2),
        "same_answers": sum(here[i][0] == text for i, text in enumerate(texts)),
        "largest_likelihood_difference": round(max(abs(here[i][1] - r) for i, r in enumerate(rated)), 4),
    }


def main() -> int:
    """Print a line a setting; with --record also write data/results/position_speed.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--only", help="one setting, such as '20 sentences'")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    llm = LocalLLM.load("smollm2", dtype=options.dtype, device="cpu")
    rows = []
    for setting, positions, n in SETTINGS:
        if options.only in (None, setting):
            try:
                rows.append(measure(llm, setting, positions, n))
            except FileNotFoundError as error:
                print(f"{setting}: left out. {error}")
                continue
            print("  ".join(f"{name}: {value}" for name, value in rows[-1].items()), flush=True)
    if options.record:
        results.write_result(
            "position_speed",
            rows,
            model=f"smollm2, {llm.dtype}",
            data="key-value records made with seed 0; NQ-Open oracle file with BM25 distractors",
            sha256="",
            command=f"{COMMAND} --dtype {options.dtype} --record",
            seconds=sum(row["seconds"] + row["peer_seconds"] for row in rows),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
