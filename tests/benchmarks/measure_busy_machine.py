"""Seconds that SmolLM2 needs for 30 tokens, alone and next to a busy process, by how torch's threads wait.

python -m tests.benchmarks.measure_busy_machine

"torch first": torch is loaded before ``rag_lab``, so its idle threads busy-wait; "rag_lab first": they sleep after
``GOMP_SPINCOUNT`` turns. Each runs in its own process. There is one busy process per core, minus one. Elapsed seconds
are measured, because waiting is the subject: nothing else should run.
"""

import os
import subprocess
import sys

BUSY = "while True: pass"
WRITE = """
import time
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Prompt
llm = LocalLLM.load("smollm2", device="cpu")
llm.complete(Prompt.of("Tell me about Berlin."), max_tokens=2)
started = time.perf_counter()
llm.complete(Prompt.of("Tell me about Berlin."), max_tokens=30)
print(time.perf_counter() - started)
"""


def seconds(first: str, busy: int) -> float:
    """Of 30 tokens, beside ``busy`` busy processes."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
    environment = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    try:
        code = f"import {first}{WRITE}"
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, text=True, env=environment
        )
    finally:
        for other in others:
            other.kill()
            other.wait()
    return float(run.stdout)


def main() -> int:
    """Print a line for each."""
    busy = (os.cpu_count() or 2) - 1
    for first in ("torch", "rag_lab"):
        alone, beside = (sorted(seconds(first, n) for _ in range(3))[1] for n in (0, busy))
        print(f"{first} first: alone {alone:.2f} s, beside {busy} busy {beside:.2f} s (medians of 3)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
