"""RAG Lab: how retrieval-augmented generation loses context, and how to win it back.

Import the module you need (``from rag_lab.encoder import Encoder``); importing the package itself loads nothing
heavy.
"""

__version__ = "0.1.0"
