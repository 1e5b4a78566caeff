"""What the rows compute: the arithmetic exactly, the others on small data with tiny models or a server's double."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag_lab import datasets
from rag_lab.llm.prompt import Completion, Prompt, Usage
from rag_lab.metrics import Interval
from rag_lab.reproduce import arithmetic, positions, retrieval, run
from rag_lab.reproduce.models import Models
from rag_lab.results import Comparison, verdict
from rag_lab.retrieval.rerankers import cross_encoder
from rag_lab.types import Chunk, Hit
from tests.support.messages_server import MessagesServer
from tests.support.paper_files import write_paper_file
from tests.support.small_sets import small_codebases, small_questions, small_set


@pytest.mark.parametrize("row", [arithmetic.blog_reductions, arithmetic.context_cost, arithmetic.crag_scoring])
def test_arithmetic_rows_are_reproduced(row: Callable[[Models], list[Comparison]]) -> None:
    assert {verdict(one) for one in row(Models())} - {""} == {"reproduced"}


def test_the_cookbooks_reduction_is_the_mean_over_its_depths() -> None:
    """1 − 13.57/19.08, 1 − 6.79/12.85 and 1 − 5.01/9.94, from its table: 28.9, 47.2 and 49.6%, on average 41.9."""
    mean, *by_depth = (row.measured.value for row in arithmetic.cookbook_reduction(Models()))
    assert by_depth == pytest.approx([28.88, 47.16, 49.60], abs=0.01)
    assert mean == pytest.approx(41.88, abs=0.01)


def test_scifact_rows(encoder: str, classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_scifact", small_set)
    tiny = Models(encoder=encoder, dtype="float32")
    (whole,) = retrieval.whole_scifact(tiny)
    assert whole.measured.n == 10
    (bm25,) = retrieval.bm25_scifact(Models())
    assert bm25.measured.value == 1.0  # every topic is in one document only
    reranked, gain = retrieval.cross_encoder_scifact(Models(reranker=classifier, dtype="float32"))
    assert reranked.measured.value - 1.0 == pytest.approx(gain.measured.value)
    for rows in (retrieval.late_tokens(tiny, (256,)), retrieval.late_sentences(tiny)):
        naive, late, difference = rows
        assert late.measured.value - naive.measured.value == pytest.approx(difference.measured.value)
        assert difference.shown
        assert difference.published == pytest.approx(1.9)
    series = [row for row in run.BY_ID["late_scifact_series"].run(tiny) if row.shown]
    assert [row.published for row in series] == [None] * 4 + [pytest.approx(1.9)]
    assert len(retrieval.berlin(tiny)) == 9


def test_each_of_the_papers_rerankers_has_its_own_figure(classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEIR's table: 0.682 for six layers, 0.680 for twelve, 0.662 for TinyBERT, 0.524 for electra-base."""
    monkeypatch.setattr(datasets, "load_scifact", lambda: small_set(2))
    monkeypatch.setattr(Models, "load_reranker", lambda self: cross_encoder(classifier, dtype="float32"))
    recipe = run.BY_ID["ce_rerank_scifact"]
    assert [recipe.run(models)[0].published for models in recipe.paper] == [0.682, 0.607, 0.68, 0.68, 0.662, 0.524]
    assert {recipe.because(models) for models in recipe.paper} == {"another BM25 below"}


def test_five_sentences_per_chunk() -> None:
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


@pytest.mark.parametrize("reranked_by", ["encoder", "cross-encoder"])
def test_the_cookbook_without_a_language_model(
    reranked_by: str, encoder: str, classifier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "load_codebases", small_codebases)
    reranker = classifier if reranked_by == "cross-encoder" else ""
    rows = {row.name: row for row in retrieval.cookbook(Models(encoder, reranker=reranker, dtype="float32"))}
    assert len(rows) == 5 * 3 + 4  # five stages at three depths, four gains
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


def test_nfcorpus_rows(encoder: str, classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_nfcorpus", small_set)
    monkeypatch.setattr(retrieval, "MEROLA_SHARE", 0.5)
    tiny = Models(encoder=encoder, reranker=classifier, dtype="float32")
    gains = [row.published for row in retrieval.merola_nfcorpus(tiny) if row.shown]
    assert gains == pytest.approx([0.0058, 0.00762])  # 0.38003 − 0.37423, and @10
    loaded = tiny.load_encoder()
    with monkeypatch.context() as patch:
        patch.setattr(Models, "load_encoder", lambda self: loaded)
        bge = [row.published for row in retrieval.merola_nfcorpus(Models(encoder="BAAI/bge-m3")) if row.shown]
    assert bge == pytest.approx([-0.17688, -0.15802])  # 0.07 − 0.24688, and @10
    rows = retrieval.merola_contextual(tiny)
    assert {row.measured.n for row in rows} == {5}  # half of the documents, so half of the questions
    assert len(rows) == 2 * 2 * 3  # without, with and their difference


def test_a_fifth_keeps_questions_with_a_relevant_document() -> None:
    fifth = retrieval.a_fifth(small_set())
    assert len(fifth.documents) == 2
    assert fifth.relevance == {f"q{d.id[1:]}": {d.id: 1} for d in fifth.documents}
    assert fifth == retrieval.a_fifth(small_set())


def test_positions_with_claude(messages_server: MessagesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published rows are Claude 1.3's, whichever Claude runs; the double's answers are all wrong."""
    monkeypatch.setattr("rag_lab.positions.multi_document.load_nq_oracle", small_questions)
    messages_server.reply = lambda text: "no idea"
    claude = Models(llm="claude-haiku-5-5", sample=2)
    rows = {row.name: row for row in positions.documents(claude, 10)}
    assert [row.published for row in list(rows.values())[:3]] == [62.9, 58.3, 59.7]
    assert rows["first − middle (published: Claude-1.3)"].published == pytest.approx(4.6)
    assert rows["position 0"].measured == Interval(0.0, 0.0, 0.0, 2)
    assert len(messages_server.billed) == 6
    baselines = positions.closed_book_and_oracle(claude)
    assert [row.published for row in baselines] == [48.3, 76.1, pytest.approx(27.8)]
    pairs = positions.key_values(claude)
    assert [row.published for row in pairs[:5]] == [100.0, 93.6, 88.6, 80.4, 96.2]
    assert "JSON" in json.dumps(messages_server.asked()[-1])


class SmallWindow:
    """TEST DOUBLE: a local model that is always wrong."""

    name = identity = "stub"
    dtype = "none"
    window = 8192
    log_likelihoods = complete_groups = None  # not used; their names say that this is a ScoringModel

    def generate_and_score(self, prompts: list[Prompt], *rest: object) -> Iterator[tuple[int, Completion, float]]:
        self.first = prompts[0].turns[-1].text
        return ((i, Completion("no", Usage(), "end_turn"), -1.0) for i in range(len(prompts)))


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> SmallWindow:
    stub = SmallWindow()
    monkeypatch.setattr(Models, "load_llm", lambda self: stub)
    monkeypatch.setattr(run, "missing", lambda models: [])
    return stub


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
    name: str, start: str, published: float, reader: SmallWindow
) -> None:
    rows = positions.key_values(Models(llm=name, sample=1))
    assert reader.first.startswith(start)
    assert rows[0].published == published


def test_the_papers_own_file_is_enough(tmp_path: Path, reader: SmallWindow) -> None:
    """But closed book and oracle read the oracle, which their record names."""
    write_paper_file(tmp_path / "none")
    assert run.command("litm_10docs", offline=True, chosen={"sample": 1}) == 0
    with pytest.raises(FileNotFoundError, match="nq-open-oracle"):
        positions.closed_book_and_oracle(Models(llm="x", sample=1))
