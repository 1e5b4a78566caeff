"""A grid of settings, run and scored on the same questions."""

from rag_lab.sweeps.analysis import TooFewQuestions, best_on_heldout, main_effects
from rag_lab.sweeps.config import SweepConfig, load_sweep, parse_sweep
from rag_lab.sweeps.index import cut
from rag_lab.sweeps.report import write_report
from rag_lab.sweeps.run import plan, run_sweep

__all__ = [
    "SweepConfig",
    "TooFewQuestions",
    "best_on_heldout",
    "cut",
    "load_sweep",
    "main_effects",
    "parse_sweep",
    "plan",
    "run_sweep",
    "write_report",
]
