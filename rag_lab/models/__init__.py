"""Finding and loading models; the encoder, and late chunking."""

from rag_lab.models.encoder import Encoder, load_encoder
from rag_lab.models.late_chunking import Tokens, macro_windows

__all__ = [
    "Encoder",
    "Tokens",
    "load_encoder",
    "macro_windows",
]
