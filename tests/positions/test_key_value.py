import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.llm.prompt import Prompt
from rag_lab.positions.key_value import PLACES, KeyValueItem, KeyValueTask
from tests.support.paper_files import write_pairs

ITEM = KeyValueItem("x", ("Berlin", "1234"), tuple((city, "9" * 4) for city in ("Rome", "Oslo", "Lima", "Riga")))


def text(prompt: Prompt) -> str:
    assert len(prompt.turns) == 1
    assert prompt.turns[0].role == "user"
    assert not prompt.system
    return prompt.turns[0].text


def test_sentences_as_they_are_read() -> None:
    task = KeyValueTask(5)
    assert text(task.prompt(ITEM, 1)) == (
        "The access code for the Rome office is 9999.\n"
        "The access code for the Berlin office is 1234.\n"
        "The access code for the Oslo office is 9999.\n"
        "The access code for the Lima office is 9999.\n"
        "The access code for the Riga office is 9999.\n"
        "\n"
        "What is the access code for the Berlin office?"
    )
    assert task.gold(ITEM) == "The access code for the Berlin office is 1234."
    assert task.accepted(ITEM) == ("1234",)


def test_json_is_the_papers_layout() -> None:
    # Section 3.1 and figure 6 of the paper, and the layout that its repository tests.
    pairs = KeyValueItem("x", ("k", "v"), (("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")))
    body = '{"a": "1",\n "b": "2",\n "c": "3",\n "d": "4",\n "k": "v"}\n\nKey: "k"\nCorresponding value:'
    start = "Extract the value corresponding to the specified key in the JSON object below.\n\n"
    assert text(KeyValueTask(5, "json").prompt(pairs, 4)) == f"{start}JSON data:\n{body}"
    aware = KeyValueTask(5, "json", query_aware=True)
    assert text(aware.prompt(pairs, 4)) == f'{start}Key: "k"\n\nJSON data:\n{body}'
    first = text(KeyValueTask(5, "json").prompt(pairs, 0))
    assert '{"k": "v",\n "a": "1",' in first
    assert ' "d": "4"}\n\n' in first


@settings(max_examples=40, deadline=None)
@given(st.integers(5, 80), st.sampled_from(["sentences", "json"]), st.booleans(), st.integers(0, 99))
def test_only_the_gold_moves(records: int, form: str, query_aware: bool, seed: int) -> None:
    task = KeyValueTask(records, form, query_aware)  # type: ignore[arg-type]
    (item,) = task.items(1, seed)
    without = None
    for position in {0, 1, records // 2, records - 1}:
        prompt = task.prompt(item, position)
        lines = [line for line in text(prompt).split("\n") if (" office is " in line or '": "' in line)]
        assert len(lines) == records
        held = lines.pop(position)
        assert item.pair[0] in held
        assert item.pair[1] in held
        rest = [line.strip(' {},"') for line in lines]
        assert without in (None, rest)
        without = rest
        # What stands before the gold, and no more, is marked as a beginning worth keeping.
        first, second = prompt.turns[0].blocks
        assert (first.cache == "5m") == (position > 0)
        assert item.pair[1] not in first.text
        assert item.pair[1] in second.text.split("\n")[0]


def test_items_are_those_of_their_seed_and_differ() -> None:
    task = KeyValueTask(20)
    assert task.items(3, seed=1) == task.items(5, seed=1)[:3]
    assert task.items(3, seed=1) != task.items(3, seed=2)
    assert len({item.pair for item in task.items(30)}) > 20


def test_no_key_and_no_value_stands_twice() -> None:
    for task in (KeyValueTask(300), KeyValueTask(300, "json")):
        (item,) = task.items(1)
        pairs = [item.pair, *item.others]
        assert len({key for key, _ in pairs}) == len({value for _, value in pairs}) == 300
    assert len(set(PLACES)) == 300


def test_json_pairs_are_random_uuids() -> None:
    (item,) = KeyValueTask(140, "json").items(1)
    for pair in [item.pair, *item.others]:
        assert [str(uuid.UUID(part)) for part in pair] == list(pair)
        assert all(uuid.UUID(part).version == 4 for part in pair)


def test_75_pairs_come_from_the_papers_file(published_data: Path) -> None:
    task = KeyValueTask(75, "json")
    items = task.items(3)
    assert all(item.id.startswith("kv-") and len(item.others) == 74 for item in items)
    assert all(item.pair[0] not in dict(item.others) for item in items)
    with pytest.raises(ValueError, match="has 500 records"):
        task.items(501)


def test_75_pairs_are_made_where_there_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path))
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path))
    assert [item.id for item in KeyValueTask(75, "json").items(2)] == ["json-0-0", "json-0-1"]


@pytest.mark.parametrize("pairs", [140, 300])
def test_pairs_come_from_the_papers_file_where_it_is(
    pairs: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path))
    write_pairs(tmp_path, pairs)
    task = KeyValueTask(pairs, "json")
    (item,) = task.items(1)
    assert item.pair == ("k3", "v3")
    assert item.others == tuple((f"k{i}", f"v{i}") for i in range(pairs) if i != 3)
    assert '"k3": "v3",\n "k0": "v0",' in text(task.prompt(item, 0))
    with pytest.raises(ValueError, match="has 1 records"):
        task.items(2)
    assert KeyValueTask(pairs).items(1)[0].id == "sentences-0-0"  # no UUIDs are asked for


def test_a_file_of_other_pairs_than_its_name_says_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path))
    write_pairs(tmp_path, 140, written=139)
    with pytest.raises(ValueError, match="record 1 does not have 140 pairs, its key and value among them"):
        KeyValueTask(140, "json").items(1)


def test_bad_input_is_named() -> None:
    for records in (4, 301):
        with pytest.raises(ValueError, match=f"{records} records"):
            KeyValueTask(records)
    with pytest.raises(ValueError, match="no form 'xml'"):
        KeyValueTask(5, "xml")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="position is 5"):
        KeyValueTask(5).prompt(ITEM, 5)
    with pytest.raises(ValueError, match="n is 0"):
        KeyValueTask(5).items(0)


@pytest.mark.parametrize(("pairs", "mean"), [(75, 3768.7), (140, 6992.8), (300, 14929.4)])
def test_token_counts_are_of_the_papers_order(pairs: int, mean: float) -> None:
    # Appendix F, table 4: mean prompt tokens of GPT-3.5-Turbo. SmolLM2 takes each digit by itself, so it needs more.
    from tests.support.local_model import smollm2

    task = KeyValueTask(pairs, "json")
    (item,) = task.items(1)
    assert 0.8 < smollm2().count_prompt_tokens(task.prompt(item, 0)) / mean < 1.6
