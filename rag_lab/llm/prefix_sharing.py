"""Many texts that begin alike, each shared token read once; answers and likelihoods from the same reading."""

from collections.abc import Iterator, Sequence
from typing import Any

from rag_lab.llm.chat_template import common_length
from rag_lab.llm.generation import Reading, Writing
from rag_lab.llm.kv_cache import side_by_side
from rag_lab.llm.prefix_cache import copy_state, empty_state, extend_state

# Ids read at a time, at most: torch's own attention, where it is used (see ``long_attention``), is computed for what
# a mask hides too, which doubles it in one long piece. Pieces are of like length, for short ones cost more a token.
PIECE = 640


def read_shared(
    model: Any, texts: Sequence[list[int]], more: int, room: int
) -> Iterator[tuple[list[int], Reading, list[Any]]]:
    """Read token ids to their end; yields batches of row numbers, their reading and the logits after each last id.

    In sorted order each text has the longest beginning in common with its neighbours, so what any two share is read
    once. A batch has at most ``room`` ids, filled up to its longest text with ``more`` to follow, and at least one
    text. When the next is asked for, a batch's reading is done with.
    """
    before: list[int] = []
    read: Any = empty_state()
    state: Any = None
    for rows in _batches(texts, more, room):
        batch = [texts[i] for i in rows]
        read = copy_state(read, min(common_length(before, batch[0]), len(batch[0]) - 1))  # its memory is taken now
        state, parts = side_by_side([len(ids) for ids in batch], more, old=state)
        logits = _read_batch(model, batch, parts, before, read)
        before, read = batch[-1], parts[-1]
        parts = []  # nothing of this batch but its last text may hold on to its memory
        yield rows, Reading(model, state, lengths=[len(ids) for ids in batch]), logits


def _read_batch(
    model: Any, texts: Sequence[list[int]], parts: Sequence[Any], before: list[int], read: Any
) -> list[Any]:
    """The logits after each text, which is read into its part; ``read`` holds what a text shares with ``before``."""
    logits = []
    for ids, part in zip(texts, parts, strict=True):
        known = min(common_length(before, ids), len(ids) - 1)
        if known:
            extend_state(part, read, known)
        reading = Reading(model, part)
        pieces = -(-(len(ids) - known) // PIECE)
        size = -(-(len(ids) - known) // pieces)
        for start in range(known, len(ids), size):
            last = reading.read([ids[start : start + size]])[0, -1]
        logits.append(last)
        before, read = ids, part
    return logits


def _batches(texts: Sequence[list[int]], more: int, room: int) -> Iterator[list[int]]:
    """Numbers of the texts in sorted order, as many at a time as have ``room`` with ``more`` ids each."""
    rows: list[int] = []
    longest = 0
    for i in sorted(range(len(texts)), key=lambda i: texts[i]):
        longest = max(longest, len(texts[i]))
        if rows and (len(rows) + 1) * (longest + more) > room:
            yield rows
            rows, longest = [], len(texts[i])
        rows.append(i)
    if rows:
        yield rows


def write_and_rate(
    reading: Reading, logits: Sequence[Any], writing: Sequence[Writing], expected: Sequence[list[int]]
) -> list[float]:
    """Write every row's answer to its end, and return the log-likelihood in nats of its ``expected`` ids.

    ``logits`` (vocabulary,) follow the prompt's last id. The expected ids are read side by side; as far as an answer
    is what is expected, that reading gives its tokens too, and it goes on from where they part.
    """
    width = max(len(ids) for ids in expected) - 1
    # A row with one id has nothing left to read: it is filled up like all shorter ones, and not looked at.
    read = reading.read([ids[:-1] for ids in expected], keep=width) if width else None
    totals, surplus = [], []
    for i, (row, ids) in enumerate(zip(writing, expected, strict=True)):
        following = [logits[i], *(read[i, width - len(ids) + 1 :] if read is not None else ())]
        totals.append(sum(x.float().log_softmax(-1)[token].item() for x, token in zip(following, ids, strict=True)))
        agreed = 0
        for x, token in zip(following, ids, strict=True):
            row.step(x)
            if row.reason or row.written[-1] != token:
                break
            agreed += 1
        surplus.append(max(0, len(ids) - 1 - agreed))
    reading.forget(surplus)
    rows = list(writing)
    while True:
        going = [i for i, row in enumerate(rows) if not row.reason]
        if not going:
            return totals
        if len(going) < len(rows):
            reading.keep_rows(going)
        rows = [rows[i] for i in going]
        for row, row_logits in zip(rows, reading.read([row.unread for row in rows]), strict=True):
            row.step(row_logits[-1])
