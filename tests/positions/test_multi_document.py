import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from rag_lab.datasets import load_corpus
from rag_lab.llm.prompt import Prompt
from rag_lab.positions.multi_document import DocumentItem, MultiDocumentTask, paper_file, read_paper_file
from rag_lab.text.answer_matching import mentions_answer
from rag_lab.types import Chunk, Corpus, Document, GoldSpan, Question
from tests.support.paper_files import write_paper_file

TEXTS = {
    "gold": "The lighthouse of Saint-Étienne was built in 1905.",
    "near": "Many a lighthouse was built when ships were made of wood.",
    "accent": "The lighthouse was put up in saint etienne by masons.",  # holds it but for accents and case
    "number": "The lighthouse cost 1,905 francs.",  # holds 1905, grouped
    "far": "Bread is made of flour.",
    "other": "A lighthouse keeper reads.",
}


def tiny_corpus(answers: tuple[str, ...] = ("Saint-Étienne",)) -> Corpus:
    documents = tuple(Document(name, text, title=name.title()) for name, text in TEXTS.items())
    question = Question("q", "where was the lighthouse built", answers, (GoldSpan("gold", 4, 35),))
    return Corpus("tiny", documents, (question,))


def text(prompt: Prompt) -> str:
    return prompt.turns[-1].text


def test_the_papers_layout() -> None:
    # Section 2.1, figure 2 and section 4.2 of the paper, and the layout that its repository tests.
    passage, other = Chunk("a", 0, "first text", 0, 10, "first"), Chunk("b", 0, "second text", 0, 11, "second")
    item = DocumentItem("q", "test question", ("x",), passage, (other,))
    corpus = Corpus("none", (), ())
    start = (
        "Write a high-quality answer for the given question using only the provided search results (some of which "
        "might be irrelevant).\n\n"
    )
    documents = "Document [1](Title: second) second text\nDocument [2](Title: first) first text\n\n"
    end = "Question: test question\nAnswer:"
    assert text(MultiDocumentTask(corpus, 2, ()).prompt(item, 1)) == start + documents + end
    aware = MultiDocumentTask(corpus, 2, (), query_aware=True)
    assert text(aware.prompt(item, 1)) == f"{start}Question: test question\n\n{documents}{end}"
    assert text(aware.closed_book(item)) == end
    assert "Document [1](Title: first) first text\n\nQuestion" in text(aware.oracle(item))


def test_distractors_hold_no_accepted_answer() -> None:
    (item,) = MultiDocumentTask(tiny_corpus(), 5).items(1)
    assert item.passage.doc_id == "gold"
    # By BM25, those with words of the question first; "accent" holds the answer, and "far" shares no word.
    assert {chunk.doc_id for chunk in item.distractors} == {"near", "number", "other", "far"}
    assert item.distractors[0].doc_id == "near"
    (item,) = MultiDocumentTask(tiny_corpus(("1905",)), 5).items(1)
    assert {chunk.doc_id for chunk in item.distractors} == {"near", "accent", "other", "far"}


def test_too_few_distractors_are_an_error() -> None:
    with pytest.raises(ValueError, match="only 4 passages hold no answer to 'where was the lighthouse built'"):
        MultiDocumentTask(tiny_corpus(), 6).items(1)


def test_questions_whose_gold_is_cut_are_left_out() -> None:
    corpus = tiny_corpus()
    halves = [Chunk("gold", i, TEXTS["gold"][a:b], a, b) for i, (a, b) in enumerate([(0, 20), (20, 50)])]
    task = MultiDocumentTask(corpus, 2, halves)
    assert task.questions == 0
    with pytest.raises(ValueError, match="has 0 questions"):
        task.items(1)


@pytest.mark.parametrize("name", ["cities", "insurance", "handbook"])
@pytest.mark.parametrize("query_aware", [False, True])
def test_only_the_gold_moves(name: str, query_aware: bool) -> None:
    task = MultiDocumentTask(load_corpus(name), 10, query_aware=query_aware)
    assert task.questions >= 60
    for item in task.items(12):
        assert len({item.passage.text, *(chunk.text for chunk in item.distractors)}) == 10
        assert not any(mentions_answer(f"{c.title} {c.text}", item.answers) for c in item.distractors)
        for position in (0, 4, 9):
            prompt = task.prompt(item, position)
            passages = text(prompt).split("Document [")[1:]
            assert len(passages) == 10
            assert [int(passage.split("]")[0]) for passage in passages] == list(range(1, 11))
            bodies = [passage.split("]", 1)[1].rstrip("\n").split("\n\nQuestion: ")[0] for passage in passages]
            gold = bodies.pop(position)
            assert item.passage.text.split("\n")[0] in gold
            assert bodies == [f"(Title: {chunk.title}) {chunk.text}" for chunk in item.distractors]
            assert text(prompt).count(item.question) >= 1 + query_aware
            blocks = prompt.turns[0].blocks
            assert [i for i, block in enumerate(blocks) if block.cache] == ([position] if position else [])


def test_items_are_those_of_their_seed() -> None:
    task = MultiDocumentTask(load_corpus("cities"), 5)
    assert task.items(3, 1) == task.items(3, 1) != task.items(3, 2)


def test_natural_questions_by_the_oracle_file(published_data: Path) -> None:
    task = MultiDocumentTask.natural_questions(20)
    assert task.name == "nq-oracle, 20 documents"
    assert task.questions == 2655
    for item in task.items(10):
        assert len(item.distractors) == 19
        assert mentions_answer(item.passage.text, item.answers)
        assert not any(mentions_answer(f"{c.title} {c.text}", item.answers) for c in item.distractors)


def test_the_papers_own_file_is_used_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write_paper_file(tmp_path)
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path))
    assert paper_file(10) == path
    assert paper_file(20) is None
    assert paper_file(7) is None
    task = MultiDocumentTask.natural_questions(10)
    (item,) = task.items(1)
    assert (item.passage.text, item.answers) == ("text 0", ("text 0",))
    assert [chunk.text for chunk in item.distractors] == [f"text {i}" for i in range(1, 10)]
    assert "Document [5](Title: T0) text 0\n" in text(task.prompt(item, 4))


def test_a_file_without_one_gold_passage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 1 has 2 gold passages"):
        read_paper_file(write_paper_file(tmp_path, (0, 1)), 10)


def test_a_file_with_too_few_documents_is_refused(tmp_path: Path) -> None:
    # Else the gold would stand at position 9 where 19 is asked for.
    with pytest.raises(ValueError, match="line 1 has 1 gold passages among 10; one among 20 is needed"):
        read_paper_file(write_paper_file(tmp_path), 20)


def test_a_question_without_an_accepted_answer_is_left_out() -> None:
    corpus = tiny_corpus()
    asked = Question("r", "where", (), (GoldSpan("gold", 0, 3),))
    assert MultiDocumentTask(replace(corpus, questions=(*corpus.questions, asked)), 2).questions == 1


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="1 documents"):
        MultiDocumentTask(tiny_corpus(), 1)
    task = MultiDocumentTask(tiny_corpus(), 5)
    with pytest.raises(ValueError, match="position is 5"):
        task.prompt(task.items(1)[0], 5)


@pytest.mark.parametrize(("documents", "mean"), [(10, 1475.6), (20, 2946.2), (30, 4419.2)])
def test_token_counts_are_of_the_papers_order(published_data: Path, documents: int, mean: float) -> None:
    # Appendix F, table 3: mean prompt tokens of GPT-3.5-Turbo.
    from tests.support.local_model import smollm2

    task = MultiDocumentTask.natural_questions(documents)
    counts = [smollm2().count_prompt_tokens(task.prompt(item, 0)) for item in task.items(5)]
    assert 0.6 < sum(counts) / len(counts) / mean < 1.6


def test_a_paper_file_without_records_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nq-open-10_total_documents_gold_at_0.jsonl.gz"
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(ValueError, match="holds no records"):
        read_paper_file(path, 10)
