import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab import storage
from rag_lab.storage import Store, append_jsonl, content_key, jsonl_bytes, read_jsonl, write_atomic

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def run_twice_at_once(code: str, *arguments: str) -> None:
    """Run ``code`` in two processes at the same time. Their last argument is "a" and "b"."""
    processes = [subprocess.Popen([sys.executable, "-c", code, *arguments, name]) for name in "ab"]
    assert [process.wait() for process in processes] == [0, 0]


def test_content_key_is_the_sha256_of_canonical_json() -> None:
    # printf '["m",{"a":1,"b":2}]' | sha256sum
    expected = "960ef9e1a9296d8d30d90d40a76141ec538750c24bdf6548e0f33506efe3b951"
    assert content_key("m", {"b": 2, "a": 1}) == content_key("m", {"a": 1, "b": 2}) == expected
    assert content_key("ab", "c") != content_key("a", "bc")
    assert content_key("\ud800") != content_key("\ud801")  # half a surrogate pair is content too
    with pytest.raises(TypeError):
        content_key(Path("x"))


def test_json_lines_are_ascii_or_readable() -> None:
    assert jsonl_bytes(["é", 1]) == b'"\\u00e9"\n1\n'
    assert jsonl_bytes(["é", 1], ensure_ascii=False) == '"é"\n1\n'.encode()


@pytest.mark.parametrize(("data", "written"), [("é\n", b"\xc3\xa9\n"), (b"\x00\r\n", b"\x00\r\n"), ("", b"")])
def test_write_atomic_replaces_the_file_and_leaves_nothing_else(
    tmp_path: Path, data: bytes | str, written: bytes
) -> None:
    path = tmp_path / "new" / "folder" / "f.txt"
    for old in (data, "something longer", data):
        write_atomic(path, old)
    assert path.read_bytes() == written
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.txt"
    write_atomic(path, "old")

    def fail(self: Path, data: bytes) -> int:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text() == "old"


@settings(max_examples=30, deadline=None)
@given(st.lists(JSON_VALUES, max_size=4), st.lists(JSON_VALUES, max_size=4))
def test_appended_records_are_read_in_order(
    tmp_path_factory: pytest.TempPathFactory, first: list[Any], second: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "new" / "r.jsonl"
    append_jsonl(path, first)
    append_jsonl(path, second)
    assert read_jsonl(path) == read_jsonl(path, strict=True) == first + second
    assert path.read_bytes().isascii()


def test_what_json_cannot_hold_is_converted_or_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with pytest.raises(TypeError):
        append_jsonl(path, [1, date(2024, 5, 3)])
    assert not path.exists()
    append_jsonl(path, [1, date(2024, 5, 3)], default=str)
    assert read_jsonl(path) == [1, "2024-05-03"]


def test_unreadable_lines_are_skipped_with_a_warning_or_raise_if_strict(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'1\n{"a"\n\n2\n\xff\n[3')
    with pytest.warns(UserWarning, match=r"3 unreadable line\(s\)"):
        assert read_jsonl(path) == [1, 2]
    with pytest.raises(ValueError, match=r"r\.jsonl, line 2 is not JSON"):
        read_jsonl(path, strict=True)
    path.write_bytes(b"1\n[2")  # a crash cut the last line short: not an error
    assert read_jsonl(path, strict=True) == [1]
    append_jsonl(path, [3])  # on a line of its own
    assert path.read_bytes() == b"1\n[2\n3\n"


@pytest.mark.parametrize(
    ("cached", "value", "file"),
    [
        (storage.cached_array, np.arange(6, dtype=np.float32).reshape(2, 3), "k.npy"),
        (storage.cached_json, {"a": [1, None, "é"]}, "k.json"),
    ],
)
def test_a_cached_value_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: Any, value: Any, file: str
) -> None:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path))
    calls: list[int] = []

    def make() -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("interrupted")
        return value

    with pytest.raises(RuntimeError, match="interrupted"):
        cached("kind", "k", make)
    got = [cached("kind", "k", make) for _ in range(2)]
    assert len(calls) == 2
    assert all(np.array_equal(value, one) for one in got)
    assert {path.name for path in (tmp_path / "kind").iterdir() if path.suffix != ".lock"} == {file}
    assert np.array_equal(cached("other", "k", lambda: value), value)
    assert (tmp_path / "other" / file).exists()


def test_one_of_two_processes_makes_a_cached_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path))
    code = (
        "import sys, time; from rag_lab.storage import cached_json\n"
        "make = lambda: (open(sys.argv[1], 'a').write('x'), time.sleep(0.2))\n"
        "cached_json('kind', 'k', make)"
    )
    run_twice_at_once(code, str(tmp_path / "calls"))
    assert (tmp_path / "calls").read_text() == "x"


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(), st.dictionaries(st.text(), JSON_VALUES, max_size=3), max_size=5))
def test_a_store_opened_again_has_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, records: dict[str, Any]
) -> None:
    store = Store(tmp_path_factory.mktemp("store") / "store.jsonl")
    for key, record in records.items():
        store.put(key, record)
    again = Store(store.path)
    assert len(again) == len(records)
    assert all(again.get(key) == store.get(key) == record for key, record in records.items())


def test_the_later_record_counts_and_a_missing_one_is_none(tmp_path: Path) -> None:
    store = Store(tmp_path / "new folder" / "s.jsonl")
    assert store.get("a") is None
    for key, n in (("a", 1), ("a", 2), ("b", 3)):
        store.put(key, {"n": n})
    again = Store(store.path)
    assert (again.get("a"), again.get("b")) == ({"n": 2}, {"n": 3})


@pytest.mark.parametrize("kept", range(1, 32))
def test_a_line_cut_short_costs_that_line_only(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "s.jsonl"
    Store(path).put("a", {"n": 1})
    whole = json.dumps({"key": "b", "record": {"n": 2}}).encode()
    path.write_bytes(path.read_bytes() + whole[:kept])
    with pytest.warns(UserWarning, match=r"1 unreadable line"):
        store = Store(path)
    assert (store.get("a"), store.get("b")) == ({"n": 1}, None)
    store.put("c", {"n": 3})
    with pytest.warns(UserWarning, match=r"1 unreadable line"):
        again = Store(path)
    assert (again.get("a"), again.get("b"), again.get("c")) == ({"n": 1}, None, {"n": 3})


def test_lines_of_another_kind_are_skipped_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    append_jsonl(path, [1, {"key": "a"}, {"key": "a", "record": {"n": 1}}])
    with pytest.warns(UserWarning, match=r"2 line\(s\)"):
        assert len(Store(path)) == 1


def test_threads_and_processes_share_a_store(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    store = Store(path)

    def put(thread: int) -> None:
        for n in range(20):
            store.put(f"{thread}/{n}", {"text": "x" * 500, "n": n})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(put, range(4)))
    assert Store(path).get("3/19") == {"text": "x" * 500, "n": 19}
    code = (
        "import sys; from rag_lab.storage import Store\n"
        "store = Store(sys.argv[1])\n"
        "for n in range(30): store.put(f'{sys.argv[2]}/{n}', {'text': 'y' * 3000})"
    )
    run_twice_at_once(code, str(path))
    assert len(Store(path)) == 80 + 60
