"""Published numbers, measured again."""

from rag_lab.reproduce.recipes import RECIPES
from rag_lab.reproduce.run import BY_ID, reproduce, table

__all__ = [
    "BY_ID",
    "RECIPES",
    "reproduce",
    "table",
]
