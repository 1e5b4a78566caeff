"""RAG Lab: how retrieval-augmented generation loses context, and how to win it back.

Import the module you need (``from rag_lab.encoder import Encoder``); importing the package itself loads nothing
heavy.
"""

import os

__version__ = "0.1.0"

# torch's threads wait for each other by turning in a loop. Where another program has one of their cores, a language
# model took 90 times as long for it (65 s for 30 tokens, 2 cores); a thread that sleeps after 1,000 turns costs 16%
# of the same 30 tokens on an idle machine. The OpenMP of torch's Linux builds reads this when torch is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
