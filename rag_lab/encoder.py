"""Text to vectors: each text on its own (naive), or chunks pooled from the token vectors of their whole document (late)."""

import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rag_lab import models
from rag_lab.documents import Chunk, Document

Vectors = NDArray[np.float32]
Kind = Literal["passage", "query"]

BATCH_TOKENS = 2048  # padded tokens in one forward pass
LONG_WORK = 50_000  # tokens from which a progress bar is shown


@dataclass(frozen=True)
class _Tokens:
    """A tokenised text: ``head`` tokens of [CLS] and prefix, the text's own, ``tail`` tokens of [SEP]."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    head: int
    tail: int


class Encoder:
    """An embedding model. ``tokenizer`` is its transformers tokenizer; ``window`` the most tokens it reads at once,
    special tokens and prefix included; ``dimension`` the length of its vectors; ``files`` says where it came from.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        files: models.ModelFiles,
        traits: models.EmbeddingTraits,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(f"{files.name} has no fast tokenizer, so no character offsets: use another model.")
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.files = files
        self.traits = traits
        self.batch_tokens = batch_tokens
        self.dimension: int = model.config.hidden_size
        self.window = traits.max_tokens or _own_window(model, tokenizer)
        # A copy, since a call to ``tokenizer`` may leave truncation and padding switched on.
        self._tokenizer = copy.deepcopy(tokenizer.backend_tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    @classmethod
    def load(
        cls,
        name: str = "minilm",
        dtype: str | None = None,
        device: str | None = None,
        allow_remote_code: bool = False,
    ) -> "Encoder":
        """Load a model by short name, hub id or path (see ``models.resolve``).

        ``dtype``: ``"float32"``, ``"bfloat16"`` or None for what is quickest here (see ``models.best_dtype``).
        ``allow_remote_code`` runs Python code from this model's hub repository: RuntimeError where the model needs
        it and it was not allowed.
        """
        from transformers import AutoModel, AutoTokenizer

        files = models.resolve(name)
        traits = models.embedding_traits(files)
        if traits.remote_code and not allow_remote_code:
            raise RuntimeError(
                f"{name} runs Python code from its hub repository: read that code, then pass allow_remote_code=True."
            )
        device = device or models.device()
        options = {"trust_remote_code": allow_remote_code}
        if files.gguf_file:
            options["gguf_file"] = files.gguf_file
        tokenizer = AutoTokenizer.from_pretrained(files.path_or_id, **options)
        model = AutoModel.from_pretrained(
            files.path_or_id, dtype=dtype or models.best_dtype(device), **options
        )
        return cls(model.to(device), tokenizer, files, traits)

    def __repr__(self) -> str:
        dtype = str(self.model.dtype).removeprefix("torch.")
        return f"Encoder({self.files.name}, {dtype}, {self.model.device}, window {self.window})"

    def count_tokens(self, text: str) -> int:
        """How many tokens a text has, without special tokens and prefix."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode(self, texts: Sequence[str], kind: Kind = "passage", max_tokens: int | None = None) -> Vectors:
        """Embed texts, each on its own: (n, d) float32, rows L2-normalised, in the order of ``texts``.

        The model's prefix for ``kind`` is put before each text. A text longer than ``max_tokens`` (default: the
        window; special tokens and prefix count) loses its end, and one warning says how many did. Raises
        ValueError for a text without any token.
        """
        limit = self.window if max_tokens is None else max_tokens
        if not 0 < limit <= self.window:
            raise ValueError(f"max_tokens is {limit}; {self.files.name} reads 1 to {self.window} tokens.")
        tokenised = self._tokenise(texts, kind)
        sequences = [_cut(tokens, limit) for tokens in tokenised]
        if empty := [i for i, ids in enumerate(sequences) if not ids]:
            raise ValueError(f"Text {empty[0]} ({texts[empty[0]]!r}) has no tokens: leave it out.")
        if lost := [len(t.ids) for t, ids in zip(tokenised, sequences, strict=True) if len(t.ids) > len(ids)]:
            warnings.warn(
                f"{len(lost)} of {len(texts)} texts are longer than {limit} tokens (the longest {max(lost)}) and"
                " were cut there: embed smaller chunks to keep what follows.",
                stacklevel=2,
            )
        pooled = np.zeros((len(texts), self.dimension), np.float32)
        for i, vectors in self._forward(sequences):
            pooled[i] = _pool(vectors, self.traits.pooling)
        return _normalise(pooled)

    def token_vectors(self, text: str, kind: Kind = "passage") -> tuple[Vectors, NDArray[np.int64]]:
        """Every token's vector (t, d), float32 and not normalised, and its character range in ``text`` (t, 2).

        Special and prefix tokens are there too, with an empty range (start == end). A text longer than the window is
        read in macro windows as in ``encode_late``.
        """
        tokens = self._tokenise([text], kind)[0]
        vectors = np.zeros((len(tokens.ids), self.dimension), np.float32)
        for _, start, piece in self._read_windows([tokens], None, None):
            vectors[start : start + len(piece)] = piece
        return vectors, np.array(tokens.offsets, np.int64).reshape(-1, 2)

    def encode_late(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        window: int | None = None,
        overlap: int | None = None,
    ) -> Vectors:
        """Embed chunks of one document by late chunking: (n, d) float32, rows L2-normalised.

        Günther et al. 2024 (arXiv 2409.04701), section 3: the model reads the whole document, then each chunk's
        vector is the mean of its token vectors. A token belongs to the chunk that holds its first character that is
        not white space; text in no chunk is not pooled. [CLS] and prefix are pooled into the first chunk, [SEP] into
        the last. A chunk that gets no token of its own takes the naive vector of its text.

        A document longer than ``window`` tokens (default: the model's window) is read in macro windows of that size,
        evenly spread, each with [CLS], prefix and [SEP], neighbours sharing at least ``overlap`` tokens (default: a
        quarter of the window). Each token's vector comes from the window that gives it more context on its poorer
        side; the paper's code takes the earlier window. A chunk across two windows is pooled from both.

        Raises ValueError for a chunk whose text is not the document's text at its offsets, and for a window or
        overlap out of range. Warns for a model whose own pooling is not the mean.
        """
        return self._late([(document, chunks)], window, overlap)[0]

    def encode_late_corpus(
        self,
        documents: Sequence[Document],
        chunks: Sequence[Chunk],
        window: int | None = None,
        overlap: int | None = None,
    ) -> Vectors:
        """``encode_late`` for the chunks of many documents, batched across them: row i belongs to ``chunks[i]``.

        Raises ValueError for two documents of one id or a chunk of a document that is not among them.
        """
        rows: dict[str, list[int]] = {document.id: [] for document in documents}
        if len(rows) < len(documents):
            raise ValueError("Two documents have the same id: give each its own.")
        for row, chunk in enumerate(chunks):
            if chunk.doc_id not in rows:
                raise ValueError(f"Chunk {chunk.id} belongs to none of the documents: pass its document too.")
            rows[chunk.doc_id].append(row)
        groups = [(document, [chunks[row] for row in rows[document.id]]) for document in documents]
        vectors = np.zeros((len(chunks), self.dimension), np.float32)
        for document, pooled in zip(documents, self._late(groups, window, overlap), strict=True):
            vectors[rows[document.id]] = pooled
        return vectors

    def _late(
        self, groups: Sequence[tuple[Document, Sequence[Chunk]]], window: int | None, overlap: int | None
    ) -> list[Vectors]:
        if self.traits.pooling != "mean":
            warnings.warn(
                f"{self.files.name} pools by {self.traits.pooling}, not by the mean: late chunking averages token"
                " vectors that it was not trained to have averaged.",
                stacklevel=3,
            )
        groups = [(document, chunks) for document, chunks in groups]
        for document, chunks in groups:
            for chunk in chunks:
                if document.text[chunk.start : chunk.end] != chunk.text:
                    raise ValueError(
                        f"Chunk {chunk.id} is not what document {document.id!r} holds at characters"
                        f" {chunk.start} to {chunk.end}: cut it from this document."
                    )
        tokenised = self._tokenise([document.text for document, _ in groups], "passage")
        spans = [
            _token_spans(document.text, tokens, chunks)
            for (document, chunks), tokens in zip(groups, tokenised, strict=True)
        ]
        sums = [np.zeros((len(chunks), self.dimension), np.float32) for _, chunks in groups]
        for i, start, vectors in self._read_windows(tokenised, window, overlap):
            for row, first, last in spans[i]:
                sums[i][row] += vectors[max(first - start, 0) : max(last - start, 0)].sum(axis=0)
        pooled = [_normalise(total) for total in sums]
        self._fill_empty(groups, spans, pooled)
        return pooled

    def _fill_empty(self, groups: Any, spans: Any, pooled: list[Vectors]) -> None:
        """Give chunks without a token the naive vector of their text."""

    def _tokenise(self, texts: Sequence[str], kind: Kind) -> list[_Tokens]:
        if isinstance(texts, str):
            raise ValueError("Pass a list of texts, not one text.")
        if kind not in ("passage", "query"):
            raise ValueError(f"kind is {kind!r}; it is 'passage' or 'query'.")
        prefix = self.traits.passage_prefix if kind == "passage" else self.traits.query_prefix
        encodings = self._tokenizer.encode_batch([prefix + text for text in texts])
        return [_split(encoding, len(prefix)) for encoding in encodings]
