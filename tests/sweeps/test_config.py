"""Sweep files: what they mean, and every refusal."""

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
    return [tuple(config.settings()[key] for key in keys) for config in sweep.configurations]


def test_the_example_file_is_the_grid_that_it_shows() -> None:
    sweep = load_sweep(DATA / "sweeps" / "example.yaml")
    # 1 strategy, 1 size, 2 overlaps, 2 values of k, 1 prompt, 1 way of cleaning, 2 histories; the last key first
    expected = [(overlap, k, history) for overlap in (50, 100) for k in (5, 3) for history in (0, 5)]
    assert values(sweep, "chunking.overlap", "retrieval.top_k", "dialog_history") == expected
    assert sweep.swept == ("chunking.overlap", "retrieval.top_k", "dialog_history")
    assert sweep.configurations[0].clean_context_instructions == "off"
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
    assert set(sweep.configurations[0].settings()) == set(KEYS)
    assert sweep.configurations[0].llm_model == "extractive"


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


def test_paths_are_looked_up_beside_the_file(tmp_path: Path) -> None:
    sweep = load_sweep(sweep_folder.write(tmp_path))
    assert [document.id for document in sweep.documents] == ["canteen", "garage", "library"]
    assert [question.answerable for question in sweep.questions] == [True] * 5 + [False] * 2


def test_a_sample_keeps_the_share_of_questions_without_an_answer(tmp_path: Path) -> None:
    text = sweep_folder.SWEEP.replace("questions: questions.jsonl", "questions: {path: questions.jsonl, sample: 4}")
    sweep = load_sweep(sweep_folder.write(tmp_path, text))
    # 4 · 5/7 = 2.9, so three of the five with an answer and one of the two without
    assert sum(question.answerable for question in sweep.questions) == 3
    assert len(sweep.questions) == 4
    assert sweep.questions == load_sweep(tmp_path / "small.yaml").questions  # by seed, so the same again


def test_corpora_can_be_searched_together() -> None:
    sweep = parse_sweep("corpus: [handbook, cities]\nquestions: {sample: 10}")
    assert {document.id for document in sweep.documents} >= {"vacation", "berlin"}


NUMBER = "it should be a valid integer"
OWN = "your own documents need documents: FOLDER and questions: FILE.jsonl, and no corpus"
REFUSED = [
    (
        "sweep: {chunking.chunk_siz: [1]}",
        "there is no key 'chunking.chunk_siz'; the nearest is 'chunking.chunk_size'",
    ),
    ("fixed: {retrieval: {topk: 1}}", "there is no key 'retrieval.topk'; the nearest is 'retrieval.top_k'"),
    ("sweeps: {}", "there is no key 'sweeps'; the nearest is 'sweep'"),
    ("questions: {sampel: 3}", "there is no key 'questions.sampel'; the nearest is 'questions.sample'"),
    (
        "sweep_mode: zip\nsweep:\n  retrieval.top_k: [1, 2]\n  dialog_history: [1, 2, 3]",
        "zip needs lists of one length; the numbers of values are: retrieval.top_k 2, dialog_history 3",
    ),
    ("sweep_mode: all", "sweep_mode is 'all'; it should be 'grid' or 'zip'"),
    ("sweep: {retrieval.top_k: [3, 0]}", "retrieval.top_k is 0; it should be greater than or equal to 1"),
    ("fixed: {retrieval.top_k: 51}", "retrieval.top_k is 51; it should be less than or equal to 50"),
    ("fixed: {retrieval.top_k: true}", f"retrieval.top_k is True; {NUMBER}"),
    ("fixed: {retrieval.top_k: 2.5}", f"retrieval.top_k is 2.5; {NUMBER}"),
    ("fixed: {chunking.strategy: by_nothing}", "chunking.strategy is 'by_nothing'; it should be 'raw', "),
    ("fixed: {chunking.chunk_size: 0}", "chunking.chunk_size is 0; it should be greater than 0"),
    (
        "fixed: {chunking.chunk_size: 50}\nsweep: {chunking.overlap: [10, 50]}",
        r"chunking.overlap under by_paragraphs: overlap \(50\) must be smaller than size \(50\)",
    ),
    ("fixed: {chunking.overlap: 3}", "chunking.overlap under by_paragraphs: size=None"),
    ("fixed: {chunking.overlap: -1}", "chunking.overlap is -1; it should be greater than or equal to 0"),
    ("fixed: {context.method: false, embedding.late: 1}", "embedding.late is 1; it should be a valid boolean"),
    ("fixed: {embedding.model: claude-haiku-5-5}", "embedding.model is 'claude-.*; it should be a local model"),
    ("fixed: {retrieval.method: hybird}", "retrieval.method is 'hybird'; it should be 'dense', 'bm25' or 'hybrid'"),
    ("fixed: {retrieval.rerank: claude-haiku-5-5}", "retrieval.rerank is 'claude-.*; it should be a local model"),
    ("fixed: {retrieval.threshold: high}", "retrieval.threshold is 'high'; it should be a valid number"),
    ("fixed: {retrieval.threshold: .nan}", "retrieval.threshold is nan; it should be a finite number"),
    ("fixed: {retrieval.threshold: .inf}", "retrieval.threshold is inf; it should be a finite number"),
    ("fixed: {llm.temperature: -0.1}", "llm.temperature is -0.1; it should be greater than or equal to 0"),
    ("fixed: {llm.model: 3}", "llm.model is 3; it should be a valid string"),
    ("fixed: {llm.model: ' '}", "llm.model is ' '; it should be a name or path"),
    ("fixed: {llm.model: claude-none}", "llm.model: No price is known for model 'claude-none'"),
    ("fixed: {clean_context_instructions: yess}", "is 'yess'; it should be 'off', 'flag' or 'strip'"),
    ("fixed: {dialog_history: 13}", "dialog_history is 13; dialogs/unrelated.jsonl has 12 messages"),
    (
        "fixed: {retrieval.top_k: 3}\nsweep: {retrieval.top_k: [4]}",
        "retrieval.top_k is under fixed and under sweep: choose one",
    ),
    ("sweep: {retrieval.top_k: 3}", "sweep.retrieval.top_k is 3; it should be a valid list"),
    ("sweep: {retrieval.top_k: []}", r"sweep.retrieval.top_k is \[\]; List should have at least 1 item"),
    ("sweep: {retrieval.top_k: [3, 3]}", "runs 1 and 2 are the same"),
    (
        "fixed: {embedding.late: true}\nsweep: {context.method: [none, headings]}",
        "context.method is 'headings', which no run reads: embedding.late embeds the document itself",
    ),
    ("fixed:\n  retrieval.top_k: 3\n  retrieval.top_k: 4", "line 2: retrieval.top_k is given twice"),
    ("fixed:\n  retrieval.top_k: 3\n  retrieval: {top_k: 4}", "retrieval.top_k is given twice"),
    ("fixed: [1]", r"fixed is \[1\]; it should be a valid dictionary"),
    ("fixed:\n\tretrieval.top_k: 3", "cannot be read as YAML: line 2: found character '\\\\t'"),
    ("fixed:\n  llm.model: a\x07b", "cannot be read as YAML: unacceptable character #x0007"),
    ("fixed: &a\n  embedding: *a", "it is nested too deeply, or a map contains itself by an alias"),
    ("fixed:\n  ? [a, b]\n  : 1", "cannot be read as YAML: line 2: found unhashable key"),
    ("- 1", "a sweep file is a map with the keys sweep_mode"),
    ("", "a sweep file is a map"),
    ("fixed: {\n", "cannot be read as YAML: line 2"),
    ("corpus: handbok", "corpus: no corpus 'handbok'"),
    ("corpus: [[handbook]]", r"corpus.0 is \['handbook'\]; it should be a valid string"),
    ("corpus: no", "corpus is False; it should be a valid list"),
    ("corpus: []", r"corpus is \[\]; List should have at least 1 item"),
    ("documents: .", OWN),
    ("questions: q.jsonl", OWN),
    ("corpus: handbook\ndocuments: .\nquestions: q.jsonl", OWN),
    ("questions: {sample: 1000}", "questions.sample is 1000; there are 163 questions"),
    # What PyYAML fails on only when it makes Python of a value: it names no line, or raises what is no YAML error.
    *(
        (f"sweep:\n  retrieval.top_k: [{value}]", "line 2: a value cannot be read .*; put it in quotes if it is text")
        for value in ("2024-13-45", "!!int abc", "!!bool maybe", "!!timestamp x")
    ),
    ("sweep:\n  retrieval.top_k: [{[1]: 2}]", "line 2: found unhashable key"),
    ("sweep:\n  retrieval.top_k: [!!python/name:os.system x]", "line 2: could not determine a constructor"),
]
MISSING = [
    ("fixed: {prompt.system_prompt_path: prompts/strng.txt}", "prompt.system_prompt_path: There is no"),
    ("fixed: {dialog_history_path: none.jsonl}", "dialog_history_path: there is no 'none.jsonl'"),
    ("fixed: {llm.model: ./no-model}", "llm.model: No model at no-model"),
    ("fixed: {embedding.model: ./no-model}", "embedding.model: No model at no-model"),
    ("documents: no-folder\nquestions: q.jsonl", "documents: there is no 'no-folder'"),
    ("documents: .\nquestions: no-file.jsonl", "questions: there is no 'no-file.jsonl'"),
]


@pytest.mark.parametrize(("text", "message"), [*REFUSED, *MISSING])
def test_a_wrong_file_is_refused_in_one_sentence(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "document.md").write_text("Something.", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    kind = FileNotFoundError if (text, message) in MISSING else ValueError
    with pytest.raises(kind, match=rf"^own: .*{message}") as caught:
        parse_sweep(text, "own")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("documents: file\nquestions: file", "documents: .* is a file; give the folder"),
        ("documents: empty\nquestions: file", "documents: Nothing to read in"),
        ("documents: folder\nquestions: folder", "questions: .*folder"),
        ("documents: folder\nquestions: latin", "questions: it is not UTF-8"),
        ("documents: folder\nquestions: file", "questions: there are none"),
        ("fixed: {dialog_history_path: folder}", "dialog_history_path: .*folder"),
        ("fixed: {dialog_history_path: latin}", "dialog_history_path: it is not UTF-8"),
        ("fixed: {prompt.system_prompt_path: latin}", "prompt.system_prompt_path: .*latin is not UTF-8"),
        (f"documents: {'a' * 300}\nquestions: file", "documents: .*name too long"),
        ("fixed: {}\n# é", "it is not UTF-8"),
    ],
)
def test_an_unusable_path_is_refused(key: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "document.md").write_text("Something.", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    (tmp_path / "sweep.yml").write_text(key, encoding="latin-1")
    with pytest.raises(ValueError, match=rf"^sweep.yml: {message}"):
        load_sweep(tmp_path / "sweep.yml")


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


def test_a_missing_sweep_file() -> None:
    with pytest.raises(FileNotFoundError, match=r"no sweep file 'none.yaml'; examples are in data/sweeps"):
        load_sweep("none.yaml")


@pytest.mark.parametrize("line", ['{"role": "system", "text": "x"}', '{"role": "user"}', "no json"])
def test_a_history_of_another_form_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text(f'{{"role": "user", "text": "Hi"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"^sweep: dialog_history_path: .*history.jsonl, line 2: "):
        parse_sweep("fixed: {dialog_history_path: history.jsonl}", folder=tmp_path)


def grid(*counts: int) -> str:
    """A grid with these numbers of values per key."""
    keys = ("llm.max_tokens", "chunking.chunk_size", "retrieval.top_k")
    return "sweep:\n" + "".join(f"  {key}: {list(range(1, n + 1))}\n" for key, n in zip(keys, counts, strict=False))


def test_a_grid_of_too_many_configurations_is_refused_before_it_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(parse_sweep(grid(100, 100)).configurations) == config.MOST
    # Expanded, these would be 50 million dictionaries.
    monkeypatch.setattr(config.itertools, "product", lambda *_: pytest.fail("expanded"))
    with pytest.raises(
        ValueError, match=r"the grid has 50,000,000 configurations \(llm.max_tokens 1000, chunking.chunk_size 1000"
    ):
        parse_sweep(grid(1000, 1000, 50))


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("fixed: {context.method: headings}\nsweep: {embedding.late: [true, false]}", 2),
        ("fixed: {embedding.late: true, context.method: headings, retrieval.method: hybrid}", 1),
        ("fixed: {embedding.late: true, context.method: headings, retrieval.rerank: max_sim}", 1),
    ],
)
def test_a_context_that_some_run_reads_is_not_refused(text: str, runs: int) -> None:
    assert len(parse_sweep(text).configurations) == runs


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True), min_size=2, max_size=2))
def test_a_grid_is_every_pair_once(lists: list[list[int]]) -> None:
    text = f"sweep: {{retrieval.top_k: {lists[0]}, llm.max_tokens: {lists[1]}}}"
    found = values(parse_sweep(text), "retrieval.top_k", "llm.max_tokens")
    assert found == [(a, b) for a in lists[0] for b in lists[1]]
