"""From a question to a checked answer: prompt, model, checks, refusal and trace."""

from rag_lab.answering.abstention import choose_threshold, threshold_curve
from rag_lab.answering.claude_documents import answer_with_documents
from rag_lab.answering.extractive import ANSWER_THRESHOLD, ExtractiveReader
from rag_lab.answering.pipeline import answer, conclude, prepare
from rag_lab.answering.streaming import DoneEvent, SourcesEvent, stream_answer
from rag_lab.answering.trace import Answer, Trace, load_answers, save_answer

__all__ = [
    "ANSWER_THRESHOLD",
    "Answer",
    "DoneEvent",
    "ExtractiveReader",
    "SourcesEvent",
    "Trace",
    "answer",
    "answer_with_documents",
    "choose_threshold",
    "conclude",
    "load_answers",
    "prepare",
    "save_answer",
    "stream_answer",
    "threshold_curve",
]
