"""Start-up of a notebook: importing every module of rag_lab, against importing torch and transformers.

python -m tests.benchmarks.bench_import
"""

import subprocess
import sys

from tests.benchmarks.rows import row

LIMIT = 1.0  # seconds
EVERY_MODULE = """
import importlib, pkgutil, rag_lab
for module in pkgutil.walk_packages(rag_lab.__path__, "rag_lab."):
    if "__main__" not in module.name:
        importlib.import_module(module.name)
"""
TIMED = "import time\nbegan = time.process_time()\n{code}\nprint(time.process_time() - began)"


def cpu_seconds(code: str) -> float:
    """The quickest of three new interpreters."""
    command = [sys.executable, "-c", TIMED.format(code=code)]
    return min(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
        for _ in range(3)
    )


def rows() -> list[dict]:
    """All modules, and one; there is only one size."""
    peer = "import torch, transformers"
    theirs = cpu_seconds(peer)
    return [
        row("import rag_lab", size, cpu_seconds(code), peer, theirs)
        for size, code in (("notebook.py alone", "import rag_lab.notebook"), ("every module", EVERY_MODULE))
    ]


if __name__ == "__main__":
    for found in rows():
        print(found)
