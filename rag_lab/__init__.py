"""RAG Lab: how retrieval-augmented generation loses context, and how to win it back.

Importing the package itself loads nothing heavy.
"""

import os

__version__ = "0.1.0"

# torch's threads wait for each other by turning in a loop, which is lost time where another program has one of their
# cores. On 2 cores, 30 tokens of SmolLM2 took 0.5 s alone and 1.5 s beside a busy process; with threads that sleep
# after 1,000 turns, 0.7 and 1.1 s (``python -m tests.benchmarks.measure_busy_machine``). The OpenMP of torch's Linux
# builds reads this when torch is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
