"""SmolLM2 under a strong and a weak system prompt, with and without an unrelated conversation before the question.

python -m tests.benchmarks.measure_sweep_prompts        about 4 minutes

Writes data/results/sweep_prompts.json, which notebook 08 shows: the file's text, and a row for each of its runs with
the outcome of every question.
"""

import time
from concurrent.futures import ProcessPoolExecutor

from rag_lab import results, settings
from rag_lab.sweeps.config import parse_sweep
from rag_lab.sweeps.run import run_sweep

CONFIG = """\
sweep_mode: grid
corpus: handbook
questions: {sample: 16, seed: 0}
fixed:
  chunking.strategy: by_headings
  retrieval.top_k: 3
  llm: {model: smollm2, max_tokens: 48}
sweep:
  prompt.system_prompt_path: [prompts/strong.txt, prompts/weak.txt]
  dialog_history: [0, 5]
"""


def main() -> None:
    sweep = parse_sweep(CONFIG, "sweep_prompts")
    started = time.perf_counter()
    with ProcessPoolExecutor(2) as executor:
        rows = run_sweep(sweep, executor)
    corpus = sorted((settings.DATA / "corpora" / "handbook").glob("*.*"))
    prompts = [settings.DATA / "prompts" / name for name in ("strong.txt", "weak.txt", "sources.yaml")]
    results.write_result(
        "sweep_prompts",
        [{"config": CONFIG}, *({key: value for key, value in row.items() if key != "key"} for row in rows)],
        model="SmolLM2-135M-Instruct, Q4_1 GGUF, bfloat16; all-MiniLM-L6-v2, float32",
        data="handbook, 16 of 163 questions; dialogs/unrelated.jsonl",
        sha256=results.digest([*corpus, *prompts, settings.DATA / "dialogs" / "unrelated.jsonl"]),
        command="python -m tests.benchmarks.measure_sweep_prompts",
        seconds=time.perf_counter() - started,
    )


if __name__ == "__main__":
    main()
