"""Sweep files: what they mean, and every refusal with its line."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.settings import DATA
from rag_lab.sweeps import config
from rag_lab.sweeps.config import KEYS, Sweep, load_sweep, parse_sweep
from tests.support import sweep_folder

SWEEPS = sorted((DATA / "sweeps").glob("*.yaml"))


def values(sweep: Sweep, *keys: str) -> list[tuple[object, ...]]:
    return [tuple(configuration[key] for key in keys) for configuration in sweep.configurations]


def test_the_issues_example_runs_as_it_stands() -> None:
    sweep = load_sweep(DATA / "sweeps" / "example.yaml")
    # 1 strategy, 1 size, 2 overlaps, 2 values of k, 1 prompt, 1 way of cleaning, 2 histories; the last key first
    assert values(sweep, "chunking.overlap", "retrieval.top_k", "dialog_history") == [
        (50, 5, 0),
        (50, 5, 5),
        (50, 3, 0),
        (50, 3, 5),
        (100, 5, 0),
        (100, 5, 5),
        (100, 3, 0),
        (100, 3, 5),
    ]
    assert sweep.swept == ("chunking.overlap", "retrieval.top_k", "dialog_history")
    assert sweep.configurations[0]["clean_context_instructions"] == "off"
    assert sweep.templates["prompts/strong.txt"].system.startswith("Answer the question from the sources")
    assert {document.id for document in sweep.documents} >= {"vacation", "telephone-list"}  # the handbook


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_the_files_in_data_are_valid(path: Path) -> None:
    assert load_sweep(path).configurations


def test_zip_takes_the_first_values_together_then_the_second_ones() -> None:
    text = "sweep_mode: zip\nsweep:\n  retrieval.top_k: [1, 2]\n  chunking: {chunk_size: [300, 500]}"
    sweep = parse_sweep(text)
    assert values(sweep, "retrieval.top_k", "chunking.chunk_size") == [(1, 300), (2, 500)]
    # every other key has its default
    assert set(sweep.configurations[0]) == set(KEYS)
    assert sweep.configurations[0]["llm.model"] == "extractive"


def test_a_file_without_sweep_is_one_configuration() -> None:
    assert values(parse_sweep("fixed: {retrieval.top_k: 4}"), "retrieval.top_k") == [(4,)]


def test_defaults_are_the_strategys_own() -> None:
    sweep = parse_sweep("sweep: {chunking.strategy: [raw, by_words, by_headings]}")
    assert values(sweep, "chunking.chunk_size", "chunking.overlap") == [(1500, 0), (200, 0), (None, 0)]


def test_spellings_that_yaml_reads_as_something_else() -> None:
    sweep = parse_sweep("sweep: {retrieval.rerank: [null, max_sim], clean_context_instructions: [false, true, flag]}")
    assert values(sweep, "retrieval.rerank", "clean_context_instructions")[:3] == [
        ("none", "off"),
        ("none", "strip"),
        ("none", "flag"),
    ]


def test_a_folder_and_questions_of_ones_own_stand_beside_the_file(tmp_path: Path) -> None:
    sweep = load_sweep(sweep_folder.write(tmp_path))
    assert [document.id for document in sweep.documents] == ["canteen", "garage", "library"]
    assert [question.answerable for question in sweep.questions] == [True] * 5 + [False] * 2


def test_a_sample_keeps_the_share_of_questions_without_an_answer(tmp_path: Path) -> None:
    text = sweep_folder.SWEEP.replace("questions: questions.jsonl", "questions: {path: questions.jsonl, sample: 4}")
    sweep = load_sweep(sweep_folder.write(tmp_path, text))
    # 4 · 5/7 = 2.9, so three of the five and one of the two
    assert sum(question.answerable for question in sweep.questions) == 3
    assert len(sweep.questions) == 4
    assert sweep.questions == load_sweep(tmp_path / "small.yaml").questions  # by seed, so the same again


def test_corpora_can_be_searched_together() -> None:
    sweep = parse_sweep("corpus: [handbook, cities]\nquestions: {sample: 10}")
    assert {document.id for document in sweep.documents} >= {"vacation", "berlin"}


REFUSED = [
    (
        "sweep:\n  chunking.chunk_siz: [1]",
        "line 2: there is no key 'chunking.chunk_siz'; the nearest is 'chunking.chu",
    ),
    (
        "fixed:\n  retrieval:\n    topk: 1",
        "3: there is no key 'retrieval.topk'; the nearest is 'retrieval.top_k'",
    ),
    ("\nsweeps: {}", "line 2: there is no key 'sweeps'; the nearest is 'sweep'"),
    ("questions: {sampel: 3}", "line 1: there is no key 'sampel'; the nearest is 'sample'"),
    (
        "sweep_mode: zip\nsweep:\n  retrieval.top_k: [1, 2]\n  dialog_history: [1, 2, 3]",
        r"line 4: zip needs lists of one length; .* retrieval.top_k \(line 3\) 2, dialog_history \(line 4\) 3",
    ),
    ("sweep_mode: all", "line 1: sweep_mode is 'all'; it is grid or zip"),
    ("sweep:\n  retrieval.top_k: [3, 0]", "line 2: retrieval.top_k is 0; it is a whole number from 1 to 50"),
    ("fixed: {retrieval.top_k: 51}", "retrieval.top_k is 51; it is a whole number from 1 to 50"),
    ("fixed: {retrieval.top_k: true}", "retrieval.top_k is True"),
    ("fixed: {retrieval.top_k: 2.5}", "retrieval.top_k is 2.5"),
    ("fixed: {chunking.strategy: by_lines}", "it is one of raw, by_words, by_tokens"),
    ("fixed: {chunking.chunk_size: 0}", "whole number from 1, or null for one unit a chunk"),
    (
        "fixed:\n  chunking.chunk_size: 50\nsweep:\n  chunking.overlap: [10, 50]",
        r"line 4: .*under by_paragraphs: overlap \(50\) must be smaller than size \(50\)",
    ),
    ("fixed: {chunking.overlap: 3}", "line 1: .*under by_paragraphs: size=None gives one unit a chunk"),
    ("fixed: {chunking.overlap: -1}", "chunking.overlap is -1; it is a whole number from 0"),
    ("fixed: {embedding.late: 1}", "embedding.late is 1; it is true or false"),
    ("fixed: {embedding.model: claude-haiku-5-5}", "it is minilm, or the hub id"),
    ("fixed: {retrieval.method: hybird}", "retrieval.method is 'hybird'; it is one of dense, bm25, hybrid"),
    ("fixed: {retrieval.rerank: claude-haiku-5-5}", "it is none, max_sim, query_likelihood, or the hub id"),
    ("fixed: {retrieval.threshold: high}", "it is a score, or null"),
    ("fixed: {retrieval.threshold: .nan}", "it is a score, or null"),
    ("fixed: {retrieval.threshold: .inf}", "it is a score, or null"),
    ("fixed: {llm.temperature: -0.1}", "llm.temperature is -0.1; it is a number from 0 to 2"),
    ("fixed: {llm.model: 3}", "llm.model is 3; it is a name or path"),
    ("fixed: {llm.model: claude-none}", "line 1: llm.model: No price is known for model 'claude-none'"),
    ("fixed: {clean_context_instructions: yess}", "it is off, flag or strip"),
    ("fixed: {dialog_history: 13}", "line 1: dialog_history is 13; dialogs/unrelated.jsonl has 12 messages"),
    ("fixed: {retrieval.top_k: 3}\nsweep:\n  retrieval.top_k: [4]", "line 3: retrieval.top_k is fixed in line 1"),
    ("sweep:\n  retrieval.top_k: 3", r"line 2: retrieval.top_k is 3; in sweep, give a list of values: \[3\]"),
    ("sweep: {retrieval.top_k: []}", "give a list of values"),
    ("sweep: {retrieval.top_k: [3, 3]}", "runs 1 and 2 are the same"),
    (
        "fixed:\n  embedding.late: true\n  context.method: headings",
        "line 3: context.method is 'headings', which no run reads: embedding.late embeds the document itself",
    ),
    (
        "fixed: {embedding.late: true}\nsweep:\n  context.method: [none, headings]",
        "line 3: context.method is 'headings', which no run reads",
    ),
    ("fixed:\n  retrieval.top_k: 3\n  retrieval.top_k: 4", "line 3: retrieval.top_k stands in line 2 too"),
    ("fixed:\n  retrieval.top_k: 3\n  retrieval: {top_k: 4}", "line 3: retrieval.top_k stands in line 2 too"),
    ("fixed: [1]", "line 1: fixed is"),
    ("fixed:\n\tretrieval.top_k: 3", "line 2: this is not YAML: found character '\\\\t'"),
    ("fixed:\n  llm.model: a\x07b", r"line 2: this is not YAML: the character U\+0007 is not allowed"),
    ("fixed: &a\n  embedding: *a", "line 1: it is nested too deep, or a map holds itself by an alias"),
    ("fixed:\n  ? [a, b]\n  : 1", "line 2: a key is a list or a map here; give a name"),
    ("- 1", "line 1: a sweep file is a map with the keys sweep_mode"),
    ("", "line 1: a sweep file is a map"),
    ("fixed: {\n", "line 2: this is not YAML"),
    ("corpus: handbok", "line 1: corpus: no corpus 'handbok'"),
    ("corpus: [[handbook]]", r"line 1: corpus is \[\['handbook'\]\]; give a name, or a list of names"),
    ("corpus: no", "line 1: corpus is False; give a name"),
    ("corpus: []", r"line 1: corpus is \[\]; give a name"),
    ("documents: .", "line 1: documents of your own need questions: FILE.jsonl"),
    ("questions: q.jsonl", "line 1: questions of your own need documents: FOLDER"),
    ("questions: {sample: 1000}", "line 1: questions.sample is 1000; it is a whole number from 1 to 163"),
]
MISSING = [
    (
        "\nfixed: {prompt.system_prompt_path: prompts/strng.txt}",
        "line 2: prompt.system_prompt_path: There is no",
    ),
    ("fixed: {dialog_history_path: none.jsonl}", "line 1: dialog_history_path: there is no 'none.jsonl'"),
    ("fixed: {llm.model: ./no-model}", "line 1: llm.model: No model at no-model"),
    ("fixed: {embedding.model: ./no-model}", "line 1: embedding.model: No model at no-model"),
    ("documents: no-folder\nquestions: q.jsonl", "line 1: documents: there is no 'no-folder'"),
    ("documents: .\nquestions: no-file.jsonl", "line 2: questions: there is no 'no-file.jsonl'"),
]


# What PyYAML fails on only when it makes Python of a value: it names no line, or raises what is no YAML error.
@pytest.mark.parametrize(
    "value", ["2024-13-45", "!!int abc", "!!bool maybe", "!!timestamp x", "{[1]: 2}", "!!python/name:os.system x"]
)
def test_a_value_that_cannot_be_read_is_refused_with_its_line(value: str) -> None:
    with pytest.raises(ValueError, match=r"line 2: this value cannot be read .*; put it in quotes if it is text"):
        parse_sweep(f"sweep:\n  retrieval.top_k: [{value}]")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("documents: file\nquestions: file", "line 1: documents: .* is a file; name the folder"),
        ("documents: empty\nquestions: file", "line 1: documents: Nothing to read in"),
        ("documents: folder\nquestions: folder", "line 2: questions: .*folder"),
        ("documents: folder\nquestions: latin", "line 2: questions: it is not UTF-8"),
        ("documents: folder\nquestions: file", "line 2: there are no questions"),
        ("fixed: {dialog_history_path: folder}", "line 1: dialog_history_path: .*folder"),
        ("fixed: {dialog_history_path: latin}", "line 1: dialog_history_path: it is not UTF-8"),
        ("fixed: {prompt.system_prompt_path: latin}", "line 1: prompt.system_prompt_path: .*latin is not UTF-8"),
        (f"documents: {'a' * 300}\nquestions: file", "line 1: documents: .*name too long"),
    ],
)
def test_a_path_to_what_is_of_no_use_is_refused_with_its_line(key: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "document.md").write_text("Something.", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    (tmp_path / "sweep.yml").write_text(key, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^sweep.yml, {message}"):
        load_sweep(tmp_path / "sweep.yml")


def test_a_sweep_file_of_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_bytes("fixed: {}\n# é".encode("latin-1"))
    with pytest.raises(ValueError, match=r"sweep.yaml, line 2: this is not UTF-8; save the file as UTF-8"):
        load_sweep(tmp_path / "sweep.yaml")


def test_files_as_windows_writes_them(tmp_path: Path) -> None:
    path = sweep_folder.write(tmp_path)
    path.write_text(path.read_text("utf-8") + "  dialog_history_path: [history.jsonl]\n", encoding="utf-8")
    history = '{"role": "user", "text": "Hi"}\n\n{"role": "assistant", "text": "one\u2028line"}\n'
    (tmp_path / "history.jsonl").write_text(history, encoding="utf-8")
    plain = load_sweep(path)
    for file in (path, tmp_path / "questions.jsonl", tmp_path / "history.jsonl"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert load_sweep(path) == plain
    assert plain.histories["history.jsonl"] == (("user", "Hi"), ("assistant", "one\u2028line"))


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_sweep(text)


@pytest.mark.parametrize(("text", "message"), MISSING)
def test_what_is_missing(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "document.md").write_text("Something.", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=message):
        parse_sweep(text)


def test_a_missing_sweep_file() -> None:
    with pytest.raises(FileNotFoundError, match=r"no sweep file 'none.yaml'; examples are in data/sweeps"):
        load_sweep("none.yaml")


@pytest.mark.parametrize("line", ['{"role": "system", "text": "x"}', '{"role": "user"}', "no json"])
def test_a_history_of_another_form_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text(f'{{"role": "user", "text": "Hi"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"sweep.yaml, line 1: dialog_history_path: .*history.jsonl, line 2"):
        parse_sweep("fixed: {dialog_history_path: history.jsonl}", folder=tmp_path)


def grid(*counts: int) -> str:
    """A grid of so many values a key."""
    keys = ("llm.max_tokens", "chunking.chunk_size", "retrieval.top_k")
    return "sweep:\n" + "".join(f"  {key}: {list(range(1, n + 1))}\n" for key, n in zip(keys, counts, strict=False))


def test_a_grid_of_too_many_configurations_is_refused_before_it_is_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(parse_sweep(grid(100, 100)).configurations) == config.MOST
    # Expanded, these would be 50 million dictionaries.
    monkeypatch.setattr(config.itertools, "product", lambda *_: pytest.fail("expanded"))
    with pytest.raises(
        ValueError, match=r"line 2: the grid has 50,000,000 configurations \(llm.max_tokens 1000 × ch"
    ):
        parse_sweep(grid(1000, 1000, 50))


def test_a_context_that_some_run_reads_is_not_refused() -> None:
    for other in (
        "embedding.late: [true, false]",
        "retrieval.method: [dense, hybrid]",
        "retrieval.rerank: [max_sim]",
    ):
        late = "" if "late" in other else "embedding.late: true, "
        text = f"fixed: {{{late}context.method: headings}}\nsweep: {{{other}}}"
        assert len(parse_sweep(text).configurations) == 1 + (", " in other)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True), min_size=2, max_size=2))
def test_a_grid_is_every_pair_once(lists: list[list[int]]) -> None:
    text = f"sweep: {{retrieval.top_k: {lists[0]}, llm.max_tokens: {lists[1]}}}"
    found = values(parse_sweep(text), "retrieval.top_k", "llm.max_tokens")
    assert found == [(a, b) for a in lists[0] for b in lists[1]]
