import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.storage import Store, content_key

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def test_content_key_is_the_sha256_of_canonical_json() -> None:
    # printf '["m",{"a":1,"b":2}]' | sha256sum
    expected = "960ef9e1a9296d8d30d90d40a76141ec538750c24bdf6548e0f33506efe3b951"
    assert content_key("m", {"b": 2, "a": 1}) == expected


def test_content_key_tells_contents_apart_and_not_dict_orders() -> None:
    assert content_key("ab", "c") != content_key("a", "bc")
    assert content_key({"a": 1, "b": 2}) == content_key({"b": 2, "a": 1})
    assert content_key("\ud800") != content_key("\ud801")  # half a surrogate pair is content too
    with pytest.raises(TypeError):
        content_key(Path("x"))


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(), st.dictionaries(st.text(), JSON_VALUES, max_size=3), max_size=5))
def test_what_was_put_is_there_after_opening_again(tmp_path_factory: pytest.TempPathFactory, records: dict) -> None:
    path = tmp_path_factory.mktemp("store") / "store.jsonl"
    store = Store(path)
    for key, record in records.items():
        store.put(key, record)
    again = Store(path)
    assert len(again) == len(records)
    assert all(again.get(key) == store.get(key) == record for key, record in records.items())


def test_the_later_record_counts_and_missing_is_none(tmp_path: Path) -> None:
    store = Store(tmp_path / "new folder" / "s.jsonl")
    assert store.get("a") is None
    store.put("a", {"n": 1})
    store.put("a", {"n": 2})
    assert Store(store.path).get("a") == {"n": 2}


@pytest.mark.parametrize("kept", range(1, 32))
def test_a_line_cut_short_costs_that_line_only(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "s.jsonl"
    Store(path).put("a", {"n": 1})
    whole = json.dumps({"key": "b", "record": {"n": 2}}).encode()
    path.write_bytes(path.read_bytes() + whole[:kept])
    with pytest.warns(UserWarning, match=r"1 unreadable line"):
        store = Store(path)
    assert store.get("a") == {"n": 1}
    assert store.get("b") is None
    store.put("c", {"n": 3})
    with pytest.warns(UserWarning, match=r"1 unreadable line"):
        again = Store(path)
    assert (again.get("a"), again.get("b"), again.get("c")) == ({"n": 1}, None, {"n": 3})


def test_threads_share_a_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.jsonl")

    def put(thread: int) -> None:
        for n in range(20):
            store.put(f"{thread}/{n}", {"text": "x" * 500, "n": n})

    threads = [threading.Thread(target=put, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = Store(store.path)
    assert len(again) == 80
    assert again.get("3/19") == {"text": "x" * 500, "n": 19}


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    code = (
        "import sys; from rag_lab.store import Store\n"
        "s = Store(sys.argv[1])\n"
        "for n in range(30): s.put(f'{sys.argv[2]}/{n}', {'text': 'y' * 3000})"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(Store(path)) == 60
