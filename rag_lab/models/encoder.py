"""Texts as vectors: each text alone (naive), or chunks pooled from their document's token vectors (late)."""

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from rag_lab import settings
from rag_lab.models import hub
from rag_lab.models.cpu_kernels import pack_linear_layers
from rag_lab.models.late_chunking import Tokens, chunk_token_ranges, macro_windows, split_encoding
from rag_lab.models.number_format import NumberFormat, number_format
from rag_lab.types import Chunk, Document

Vectors = NDArray[np.float32]
Kind = Literal["passage", "query"]

BATCH_TOKENS = 2048  # padded tokens in one forward pass
LONG_WORK = 200_000  # tokens from which a progress bar is shown: about half a minute of a laptop


class Encoder:
    """An embedding model. ``tokenizer`` is transformers' own, ``files`` says where the model came from.

    ``window`` is the most tokens of one input, special tokens and prefix included; ``dimension`` the length of a
    vector; ``batch_tokens`` the most tokens, padding included, of one forward pass (raise it on a GPU).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        files: hub.ModelFiles,
        traits: hub.EmbeddingTraits,
        batch_tokens: int = BATCH_TOKENS,
        number_format: NumberFormat | None = None,
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(f"{files.name} has no fast tokenizer, so no character offsets: use another model.")
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.files = files
        self.traits = traits
        self.batch_tokens = batch_tokens
        self.number_format = number_format or NumberFormat(str(model.dtype).removeprefix("torch."), False, "as given")
        self.dimension: int = model.config.hidden_size
        self.window = traits.max_tokens or hub.input_window(model, tokenizer)
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
    ) -> Self:
        """Load a model by short name, hub id or path (see ``hub.resolve``).

        ``dtype``: ``"float32"``, ``"bfloat16"`` or None for the quicker one here (see ``number_format``).
        ``allow_remote_code`` runs Python code from this model's hub repository. Raises RuntimeError if the model
        needs that and it is not allowed, ValueError for another ``dtype``.
        """
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()  # reading the weights takes a moment; downloads have a bar of their own
        files = hub.resolve(name, "encoder")
        traits = hub.embedding_traits(files)
        device = device or hub.device()
        chosen = number_format("encoder", device, dtype)
        options: dict[str, Any] = hub.own_code(files, traits.remote_code, allow_remote_code)
        if files.gguf_file:
            options["gguf_file"] = files.gguf_file
        tokenizer = AutoTokenizer.from_pretrained(files.path_or_id, **options)
        model = AutoModel.from_pretrained(files.path_or_id, dtype=chosen.dtype, **options).to(device)
        model = pack_linear_layers(model) if chosen.packed else model
        return cls(model, tokenizer, files, traits, number_format=chosen)

    def __repr__(self) -> str:
        return f"Encoder({self.files.name}, {self.number_format}, {self.model.device}, window {self.window})"

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, without special tokens and prefix."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode(self, texts: Sequence[str], kind: Kind = "passage", max_tokens: int | None = None) -> Vectors:
        """Embed texts, each alone: (n, d) float32, rows L2-normalised, in the order of ``texts``.

        The model's prefix for ``kind`` is put before each text. A text longer than ``max_tokens`` (default: the
        window; special tokens and prefix count) loses its end, and one warning says how many did. Raises ValueError
        if a text has no tokens.
        """
        limit = self.window if max_tokens is None else max_tokens
        if not 0 < limit <= self.window:
            raise ValueError(f"max_tokens is {limit}; {self.files.name} reads 1 to {self.window} tokens.")
        tokenised = self._tokenise(texts, kind)
        sequences = [tokens.truncated(limit) for tokens in tokenised]
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

        Special and prefix tokens are included, with an empty range (start == end). A text longer than the window is
        encoded in macro windows as in ``encode_late``.
        """
        tokens = self._tokenise([text], kind)[0]
        vectors = np.zeros((len(tokens.ids), self.dimension), np.float32)
        for _, start, piece in self._encode_windows([tokens], None, None):
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

        Günther et al. 2024 (arXiv 2409.04701), section 3: the model encodes the whole document, then each chunk's
        vector is the mean of its token vectors. A token belongs to the chunk that contains its first character other
        than white space; text in no chunk is not pooled. [CLS] and prefix are pooled into the first chunk, [SEP] into
        the last. A chunk without a token of its own takes the naive vector of its text. ``Chunk.context`` is ignored.

        A document longer than ``window`` tokens (default: the model's window) is encoded in macro windows of that
        size, evenly spread, each with [CLS], prefix and [SEP]. Neighbours share at least ``overlap`` tokens (default:
        a quarter of the window). Each token's vector comes from the window that gives it more context on its poorer
        side; the paper's code takes the earlier window. A chunk across two windows is pooled from both.

        Raises ValueError if a chunk's text is not the document's text at its offsets, or if window or overlap is out
        of range. Warns if the model's own pooling is not the mean.
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

        Raises ValueError if two documents have one id, or if a chunk's document is missing.
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
        for document, chunks in groups:
            for chunk in chunks:
                if document.text[chunk.start : chunk.end] != chunk.text:
                    raise ValueError(
                        f"Chunk {chunk.id} is not what document {document.id!r} holds at characters"
                        f" {chunk.start} to {chunk.end}: cut it from this document."
                    )
        tokenised = self._tokenise([document.text for document, _ in groups], "passage")
        ranges = [
            chunk_token_ranges(document.text, tokens, chunks)
            for (document, chunks), tokens in zip(groups, tokenised, strict=True)
        ]
        sums = [np.zeros((len(chunks), self.dimension), np.float32) for _, chunks in groups]
        for i, start, vectors in self._encode_windows(tokenised, window, overlap):
            for row, first, last in ranges[i]:
                sums[i][row] += vectors[max(first - start, 0) : max(last - start, 0)].sum(axis=0)
        pooled = {(i, row) for i, found in enumerate(ranges) for row, _, _ in found}
        rest = [
            (i, row) for i, (_, chunks) in enumerate(groups) for row in range(len(chunks)) if (i, row) not in pooled
        ]
        for (i, row), vector in zip(rest, self.encode([groups[i][1][row].text for i, row in rest]), strict=True):
            sums[i][row] = vector
        return [_normalise(total) for total in sums]

    def _tokenise(self, texts: Sequence[str], kind: Kind) -> list[Tokens]:
        if isinstance(texts, str):
            raise ValueError("Pass a list of texts, not one text.")
        if kind not in ("passage", "query"):
            raise ValueError(f"kind is {kind!r}; it is 'passage' or 'query'.")
        prefix = self.traits.passage_prefix if kind == "passage" else self.traits.query_prefix
        encodings = self._tokenizer.encode_batch([prefix + text for text in texts])
        return [split_encoding(encoding, len(prefix)) for encoding in encodings]

    def _encode_windows(
        self, tokenised: Sequence[Tokens], window: int | None, overlap: int | None
    ) -> Iterator[tuple[int, int, Vectors]]:
        """(number of a text, its token at row 0, vectors): every token of a text once, in macro windows."""
        size = self.window if window is None else window
        edges = max((tokens.prefix_tokens + tokens.suffix_tokens for tokens in tokenised), default=0)
        if not edges < size <= self.window:
            raise ValueError(f"window is {size}; {self.files.name} takes {edges + 1} to {self.window} tokens.")
        shared = size // 4 if overlap is None else overlap
        if not 0 <= shared < size - edges:
            raise ValueError(f"overlap is {shared}; with a window of {size} it is 0 to {size - edges - 1} tokens.")
        windows = [(i, own) for i, tokens in enumerate(tokenised) for own in macro_windows(tokens, size, shared)]
        for number, vectors in self._forward([own.ids for _, own in windows]):
            i, own = windows[number]
            yield i, own.text_offset, vectors[own.pool_start : own.pool_end]

    def _forward(self, sequences: Sequence[list[int]]) -> Iterator[tuple[int, Vectors]]:
        """Each sequence's number and last hidden states (t, d) in float32, the longest sequences first."""
        import torch
        from tqdm.auto import tqdm

        total = sum(map(len, sequences))
        padding = self.tokenizer.pad_token_id or 0
        with tqdm(total=total, unit=" tokens", unit_scale=True, disable=total < LONG_WORK, leave=False) as progress:
            for batch in _batches(sequences, self.batch_tokens):
                lengths = [len(sequences[i]) for i in batch]
                ids = torch.full((len(batch), max(lengths)), padding)
                mask = torch.zeros_like(ids)
                for row, i in enumerate(batch):
                    ids[row, : lengths[row]] = torch.tensor(sequences[i])
                    mask[row, : lengths[row]] = 1
                with torch.inference_mode():
                    inputs = {"input_ids": ids.to(self.model.device), "attention_mask": mask.to(self.model.device)}
                    states = self.model(**inputs).last_hidden_state.float().cpu().numpy()
                for row, i in enumerate(batch):
                    yield i, states[row, : lengths[row]]
                progress.update(sum(lengths))


def _batches(sequences: Sequence[list[int]], batch_tokens: int) -> Iterator[list[int]]:
    """Numbers of sequences of similar length, to pad little: at most ``batch_tokens`` tokens per batch."""
    order = sorted((i for i, ids in enumerate(sequences) if ids), key=lambda i: -len(sequences[i]))
    start = 0
    while start < len(order):
        stop = start + max(batch_tokens // len(sequences[order[start]]), 1)
        yield order[start:stop]
        start = stop


def _pool(vectors: Vectors, pooling: hub.Pooling) -> Vectors:
    """A text's vector (d,), from its token vectors (t, d)."""
    if pooling == "mean":
        return vectors.mean(axis=0)
    return vectors[0] if pooling == "cls" else vectors[-1]


def _normalise(vectors: Vectors) -> Vectors:
    """Rows of length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def load_encoder(name: str | None = None) -> Encoder:
    """The encoder ``name``, by default the one that ``RAG_LAB_ENCODER`` names.

    Raises RuntimeError if its repository brings code of its own and ``RAG_LAB_REMOTE_CODE`` is not 1.
    """
    return Encoder.load(name or settings.encoder_name(), allow_remote_code=settings.allow_remote_code())
