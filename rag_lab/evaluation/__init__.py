"""Right, wrong, refused or failed, and at which step; questions generated from documents."""

from rag_lab.evaluation.diagnosis import ADVICE, FAILURE_MODES, diagnose, plot_diagnosis, summarise
from rag_lab.evaluation.questions import generate_questions, report_questions
from rag_lab.evaluation.scoring import is_correct, model_judge, outcome

__all__ = [
    "ADVICE",
    "FAILURE_MODES",
    "diagnose",
    "generate_questions",
    "is_correct",
    "model_judge",
    "outcome",
    "plot_diagnosis",
    "report_questions",
    "summarise",
]
