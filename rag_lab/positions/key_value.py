"""Retrieval in its smallest form: one record among many, asked for by its key (Liu et al. 2023, section 3)."""

import random
import uuid
from dataclasses import dataclass
from typing import Literal

from rag_lab.datasets import KeyValueRecord, load_kv_pairs
from rag_lab.llm.prompt import Block, Prompt, Turn

Pair = tuple[str, str]

FEWEST, MOST = 5, 300
PAPER_PAIRS = (75, 140, 300)  # each a file of the paper's

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
    """The pair that is asked for, and the others in their order."""

    id: str
    pair: Pair
    others: tuple[Pair, ...]


@dataclass(frozen=True)
class KeyValueTask:
    """One of ``records`` (5 to 300) records is asked for; only its place among the others changes.

    ``sentences`` are "The access code for the X office is NNNN.", which a small model can read. ``json`` is the
    paper's task word for word: random UUIDs, taken from its file of 75, 140 or 300 pairs where a data folder has it,
    else made as it was, by ``uuid4``. ``query_aware`` puts the question before the records too (section 4.2). The
    expected answer is the whole sentence, or the value; accepted is any answer that holds the value.
    """

    records: int = 20
    form: Literal["sentences", "json"] = "sentences"
    query_aware: bool = False

    def __post_init__(self) -> None:
        if not FEWEST <= self.records <= MOST:
            raise ValueError(f"{self.records} records; the task is made with {FEWEST} to {MOST}.")
        if self.form not in ("sentences", "json"):
            raise ValueError(f"There is no form {self.form!r}; there are sentences and json.")

    @property
    def name(self) -> str:
        """Such as ``20 sentences`` or ``75 json, query-aware``."""
        return f"{self.records} {self.form}" + (", query-aware" if self.query_aware else "")

    @property
    def size(self) -> int:
        """How many positions there are: 0 to ``size - 1``."""
        return self.records

    @property
    def max_tokens(self) -> int:
        """Enough for the answer: a sentence, or a UUID, of which a digit may be a token."""
        return 24 if self.form == "sentences" else 64

    def items(self, n: int, seed: int = 0) -> list[KeyValueItem]:
        """``n`` items; the same seed gives the same. ValueError for more than the paper's file holds."""
        if n < 1:
            raise ValueError(f"n is {n}; ask for 1 item or more.")
        if self.form == "json" and (known := _published(self.records)):
            if n > len(known):
                raise ValueError(f"n is {n}; the paper's file has {len(known)} records.")
            chosen = random.Random(seed).sample(range(len(known)), n)
            return [
                KeyValueItem(
                    f"kv-{i}",
                    (known[i].key, known[i].value),
                    tuple(pair for pair in known[i].pairs if pair[0] != known[i].key),
                )
                for i in chosen
            ]
        make = _offices if self.form == "sentences" else _uuids
        items = []
        for i in range(n):
            pair, *others = make(self.records, random.Random(f"{seed} {i}"))
            items.append(KeyValueItem(f"{self.form}-{seed}-{i}", pair, tuple(others)))
        return items

    def prompt(self, item: KeyValueItem, position: int) -> Prompt:
        """The prompt with the pair at ``position`` (from 0); what stands before it is marked for the cache."""
        if not 0 <= position < self.records:
            raise ValueError(f"position is {position}; {self.records} records have 0 to {self.records - 1}.")
        pairs = [*item.others[:position], item.pair, *item.others[position:]]
        if self.form == "sentences":
            question = f"What is the access code for the {item.pair[0]} office?"
            start, end = f"{question}\n\n" if self.query_aware else "", f"\n{question}"
            lines = [f"{_sentence(pair)}\n" for pair in pairs]
        else:
            asked = f'Key: "{item.pair[0]}"\n'
            start = "Extract the value corresponding to the specified key in the JSON object below.\n\n"
            start += (f"{asked}\n" if self.query_aware else "") + "JSON data:\n"
            end = f"\n\n{asked}Corresponding value:"
            lines = [f' "{key}": "{value}",\n' for key, value in pairs]
            lines[0], lines[-1] = "{" + lines[0][1:], lines[-1][:-2] + "}"
        before = Block(start + "".join(lines[:position]), cache="5m" if position else "")
        return Prompt((Turn("user", (before, Block("".join(lines[position:]) + end))),))

    def gold(self, item: KeyValueItem) -> str:
        """The answer whose likelihood is measured."""
        return _sentence(item.pair) if self.form == "sentences" else item.pair[1]

    def accepted(self, item: KeyValueItem) -> tuple[str, ...]:
        """What a right answer must hold."""
        return (item.pair[1],)


def _sentence(pair: Pair) -> str:
    return f"The access code for the {pair[0]} office is {pair[1]}."


def _offices(count: int, chance: random.Random) -> list[Pair]:
    """Pairs with no place and no code twice; plain city names as long as there are enough."""
    places = chance.sample(PLACES[: max(count, len(_CITIES.split()))], count)
    return list(zip(places, map(str, chance.sample(range(1000, 10000), count)), strict=True))


def _uuids(count: int, chance: random.Random) -> list[Pair]:
    def make() -> str:
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))

    return [(make(), make()) for _ in range(count)]


def _published(pairs: int) -> tuple[KeyValueRecord, ...]:
    """The paper's own records; none where it has no such file, or no data folder has it."""
    try:
        return load_kv_pairs(pairs) if pairs in PAPER_PAIRS else ()
    except FileNotFoundError:
        return ()
