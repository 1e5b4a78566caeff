"""How an answer depends on where in the prompt its source is."""

from rag_lab.positions.attention import answer_attention
from rag_lab.positions.curves import position_curve, shuffle_positions
from rag_lab.positions.key_value import KeyValueTask
from rag_lab.positions.multi_document import MultiDocumentTask, baselines
from rag_lab.positions.ordering import ORDERS, chunk_count_experiment, ordering_experiment, rank_passages

__all__ = [
    "ORDERS",
    "KeyValueTask",
    "MultiDocumentTask",
    "answer_attention",
    "baselines",
    "chunk_count_experiment",
    "ordering_experiment",
    "position_curve",
    "rank_passages",
    "shuffle_positions",
]
