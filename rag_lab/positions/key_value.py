"""The key-value task: find one record among many by its key (Liu et al. 2023, section 3)."""

import random
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from rag_lab.datasets import load_kv_pairs
from rag_lab.llm.prompt import Block, Prompt, Turn

Pair = tuple[str, str]

FEWEST, MOST = 5, 300

_SIDES = ("", " North", " South", " East", " West")
_CITIES = (
    "Accra Amman Antwerp Athens Baku Bergen Berlin Bilbao Bogota Boston Cairo Cardiff Chennai Dakar Delhi Denver "
    "Doha Dublin Durban Geneva Ghent Glasgow Hamburg Hanoi Havana Houston Jakarta Kabul Kampala Karachi Kigali Kyoto "
    "Lagos Lahore Leeds Lima Lisbon Lusaka Lyon Madrid Malmo Manila Milan Munich Nairobi Naples Osaka Oslo Paris "
    "Perth Porto Prague Quito Riga Rome Seoul Sofia Tampa Tunis Vienna"
)
PLACES = tuple(city + side for side in _SIDES for city in _CITIES.split())


@dataclass(frozen=True)
class KeyValueItem:
    """The pair that the question is about, and the others in their order."""

    id: str
    pair: Pair
    others: tuple[Pair, ...]


@dataclass(frozen=True)
class KeyValueTask:
    """The question is about one of ``size`` (5 to 300) records; only its position among the others changes.

    ``sentences`` are "The access code for the X office is NNNN.", which a small model can read. ``json`` is the
    paper's task word for word: random UUIDs, from its file of 75, 140 or 300 pairs if a data folder has it, else made
    as that was, by ``uuid4``. ``query_aware`` puts the question before the records too (section 4.2). The gold answer
    is the whole sentence, or the value; an answer is accepted if it contains the value.
    """

    size: int = 20
    form: Literal["sentences", "json"] = "sentences"
    query_aware: bool = False

    def __post_init__(self) -> None:
        if not FEWEST <= self.size <= MOST:
            raise ValueError(f"The task has {FEWEST} to {MOST} records, not {self.size} records.")
        if self.form not in ("sentences", "json"):
            raise ValueError(f"There is no form {self.form!r}; there are sentences and json.")

    @property
    def name(self) -> str:
        """For example ``20 sentences`` or ``75 json, query-aware``."""
        return f"{self.size} {self.form}" + (", query-aware" if self.query_aware else "")

    @property
    def max_tokens(self) -> int:
        """Enough for the answer: a sentence, or a UUID with one token per digit."""
        return 24 if self.form == "sentences" else 64

    def items(self, n: int, seed: int = 0) -> list[KeyValueItem]:
        """``n`` items, the same for the same seed. Raises ValueError if the paper's file has fewer."""
        if n < 1:
            raise ValueError(f"n is {n}; it must be 1 or more.")
        if self.form == "json":
            with suppress(FileNotFoundError):
                return _paper_items(self.size, n, seed)
        make = _offices if self.form == "sentences" else _uuids
        made = [make(self.size, random.Random(f"{seed} {i}")) for i in range(n)]
        return [KeyValueItem(f"{self.form}-{seed}-{i}", pair, tuple(rest)) for i, (pair, *rest) in enumerate(made)]

    def prompt(self, item: KeyValueItem, position: int) -> Prompt:
        """The prompt with the pair at ``position`` (from 0); the text before it is marked for the cache."""
        if not 0 <= position < self.size:
            raise ValueError(f"position is {position}; {self.size} records have 0 to {self.size - 1}.")
        pairs = [*item.others[:position], item.pair, *item.others[position:]]
        if self.form == "sentences":
            question = f"What is the access code for the {item.pair[0]} office?"
            start, end = f"{question}\n\n" if self.query_aware else "", f"\n{question}"
            lines = [f"{_sentence(pair)}\n" for pair in pairs]
        else:
            question = f'Key: "{item.pair[0]}"\n'
            start = "Extract the value corresponding to the specified key in the JSON object below.\n\n"
            start += (f"{question}\n" if self.query_aware else "") + "JSON data:\n"
            end = f"\n\n{question}Corresponding value:"
            lines = [f' "{key}": "{value}",\n' for key, value in pairs]
            lines[0], lines[-1] = "{" + lines[0][1:], lines[-1][:-2] + "}"
        before = Block(start + "".join(lines[:position]), cache="5m" if position else "")
        return Prompt((Turn("user", (before, Block("".join(lines[position:]) + end))),))

    def gold(self, item: KeyValueItem) -> str:
        """The answer whose likelihood is measured."""
        return _sentence(item.pair) if self.form == "sentences" else item.pair[1]

    def accepted(self, item: KeyValueItem) -> tuple[str, ...]:
        """What a correct answer must contain."""
        return (item.pair[1],)


def _sentence(pair: Pair) -> str:
    return f"The access code for the {pair[0]} office is {pair[1]}."


def _offices(count: int, rng: random.Random) -> list[Pair]:
    """Pairs in which no place and no code is repeated; plain city names if there are enough."""
    places = rng.sample(PLACES[: max(count, len(_CITIES.split()))], count)
    return list(zip(places, map(str, rng.sample(range(1000, 10000), count)), strict=True))


def _uuids(count: int, rng: random.Random) -> list[Pair]:
    uuids = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(2 * count)]
    return list(zip(uuids[::2], uuids[1::2], strict=True))


def _paper_items(size: int, n: int, seed: int) -> list[KeyValueItem]:
    """``n`` of the paper's own records. Raises FileNotFoundError if no data folder has its file of this size."""
    known = load_kv_pairs(size)
    if n > len(known):
        raise ValueError(f"n is {n}; the paper's file has {len(known)} records.")
    items = []
    for i in random.Random(seed).sample(range(len(known)), n):
        others = tuple(pair for pair in known[i].pairs if pair[0] != known[i].key)
        items.append(KeyValueItem(f"kv-{i}", (known[i].key, known[i].value), others))
    return items
