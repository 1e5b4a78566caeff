"""Question answering over documents; one of them holds the answer (Liu et al. 2023, section 2)."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from rag_lab import datasets
from rag_lab.chunking import chunk_corpus, chunk_paragraphs
from rag_lab.datasets import json_lines, load_nq_oracle
from rag_lab.llm.language_model import LanguageModel
from rag_lab.llm.prompt import Block, Prompt, Turn
from rag_lab.metrics import span_recall
from rag_lab.positions.conditions import ConditionResults, PromptSet, run_conditions
from rag_lab.prompting.build import build_prompt
from rag_lab.prompting.templates import assign_sources, fill, load_template, render_source
from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.storage import Store
from rag_lab.text.answer_matching import mentions_answer
from rag_lab.types import Chunk, Corpus, Question

PAPER_FILE = "nq-open-{}_total_documents_gold_at_0.jsonl.gz"


@dataclass(frozen=True)
class DocumentItem:
    """A question, the passage that answers it, and the others as ranked by relevance."""

    id: str
    question: str
    answers: tuple[str, ...]
    passage: Chunk
    distractors: tuple[Chunk, ...]


class MultiDocumentTask:
    """``documents`` passages in the paper's layout; one holds the answer, and only its position changes.

    It works on any corpus. Questions are used if they have an accepted answer and their gold lies in one chunk. The
    distractors are BM25's best chunks for the question whose title and text hold no accepted answer
    (``mentions_answer``), best first, as in the paper. The gold answer is the first accepted one.
    """

    max_tokens = 64  # SmolLM2's answers have 20 to 40; the paper took 100 and scored the first line

    def __init__(
        self, corpus: Corpus, documents: int = 20, chunks: Sequence[Chunk] | None = None, query_aware: bool = False
    ) -> None:
        """``chunks`` of the corpus are by default paragraphs, cut at 600 characters.

        Raises ValueError for fewer than two documents.
        """
        if documents < 2:
            raise ValueError(f"{documents} documents; with fewer than 2 there is no position to change.")
        if chunks is None:
            chunks = chunk_corpus(corpus.documents, chunk_paragraphs, size=600)
        self.size = documents
        self.query_aware = query_aware
        self.name = f"{corpus.name}, {documents} documents" + (", query-aware" if query_aware else "")
        self._corpus = corpus
        self._chunks = tuple(chunks)
        self._template = load_template("liu2023")
        self._ready: dict[str, DocumentItem] = {}

    @classmethod
    def natural_questions(cls, documents: int = 20, query_aware: bool = False) -> "MultiDocumentTask":
        """The paper's questions: its own file of 10, 20 or 30 documents if a data folder has it.

        Otherwise ``nq_oracle``. ``name`` says which. Raises FileNotFoundError if neither is there.
        """
        path = paper_file(documents)
        if path is None:
            return cls.nq_oracle(documents, query_aware)
        task = cls(Corpus("nq-open (paper's file)", (), ()), documents, (), query_aware)
        task._ready = {item.id: item for item in read_paper_file(path, documents)}
        return task

    @classmethod
    def nq_oracle(cls, documents: int = 20, query_aware: bool = False) -> "MultiDocumentTask":
        """The questions and gold passages of the paper's oracle file; distractors are other questions' passages."""
        corpus = load_nq_oracle()
        whole = [Chunk(d.id, 0, d.text, 0, len(d.text), d.title, d.uri) for d in corpus.documents]
        return cls(corpus, documents, whole, query_aware)

    @cached_property
    def _index(self) -> BM25Index:
        return BM25Index(self._chunks)

    @cached_property
    def _gold(self) -> dict[str, tuple[Question, Chunk]]:
        """Questions by id, each with the chunk that covers all of its gold."""
        by_document: dict[str, list[Chunk]] = {}
        for chunk in self._chunks:
            by_document.setdefault(chunk.doc_id, []).append(chunk)
        return {
            question.id: (question, chunk)
            for question in self._corpus.questions
            if question.answerable and question.answers
            for chunk in reversed(by_document.get(question.gold[0].doc_id, ()))  # of several the first is kept
            if span_recall([chunk], question.gold) == 1.0
        }

    @property
    def questions(self) -> int:
        """The number of questions to draw from."""
        return len(self._ready or self._gold)

    def items(self, n: int, seed: int = 0) -> list[DocumentItem]:
        """``n`` questions, the same for the same seed. Raises ValueError if questions or distractors are too few."""
        known = sorted(self._ready or self._gold)
        if not 1 <= n <= len(known):
            raise ValueError(f"n is {n}; {self.name} has {len(known)} questions whose gold lies in one passage.")
        return [self._ready.get(id_) or self._item(id_) for id_ in random.Random(seed).sample(known, n)]

    def _item(self, id_: str) -> DocumentItem:
        question, gold = self._gold[id_]
        ranked = [hit.chunk for hit in self._index.search(question.text, len(self._chunks))]
        ids = {chunk.id for chunk in ranked}
        rest = [chunk for chunk in self._chunks if chunk.id not in ids]  # they share no word with the question
        random.Random(id_).shuffle(rest)
        distractors: dict[str, Chunk] = {}  # by text
        for chunk in [*ranked, *rest]:
            if chunk.text != gold.text and not mentions_answer(f"{chunk.title}\n{chunk.text}", question.answers):
                distractors.setdefault(chunk.text, chunk)
            if len(distractors) == self.size - 1:
                return DocumentItem(id_, question.text, question.answers, gold, tuple(distractors.values()))
        raise ValueError(
            f"{self.name}: only {len(distractors)} passages hold no answer to {question.text!r}, but "
            f"{self.size - 1} are needed; take fewer documents or smaller chunks."
        )

    def prompt(self, item: DocumentItem, position: int) -> Prompt:
        """The prompt with the gold passage at ``position`` (from 0); the text before it is marked for the cache.

        Every passage before the gold is a block of its own, so that a cache finds where two positions differ.
        """
        if not 0 <= position < self.size:
            raise ValueError(f"position is {position}; {self.size} documents have 0 to {self.size - 1}.")
        chunks = [*item.distractors[:position], item.passage, *item.distractors[position:]]
        return self._prompt(item.question, chunks, position)

    def oracle(self, item: DocumentItem) -> Prompt:
        """The prompt with only the gold passage: the best that reading can do."""
        return self._prompt(item.question, [item.passage], 0)

    def closed_book(self, item: DocumentItem) -> Prompt:
        """Only the question, as in the paper: what the model knows without reading."""
        return Prompt.of(fill(self._template.question, {"question": item.question}))

    def gold(self, item: DocumentItem) -> str:
        """The answer whose likelihood is measured."""
        return item.answers[0]

    def accepted(self, item: DocumentItem) -> tuple[str, ...]:
        """A correct answer contains one of these."""
        return item.answers

    def _prompt(self, question: str, chunks: Sequence[Chunk], position: int) -> Prompt:
        sources = assign_sources(chunks)
        whole = build_prompt(question, sources, template=self._template, query_aware=self.query_aware)
        message, *rest = whole.turns[0].blocks
        rendered = [render_source(source, i, self._template) for i, source in enumerate(sources, 1)]
        start, end = message.text.split("".join(rendered))
        blocks = [Block(start), *map(Block, rendered[:position]), Block("".join(rendered[position:]) + end), *rest]
        if position:
            blocks[position] = Block(rendered[position - 1], cache="5m")
        return replace(whole, turns=(Turn("user", tuple(blocks)),))


def baselines(
    llm: LanguageModel, task: MultiDocumentTask, n: int, seed: int = 0, store: Store | None = None
) -> ConditionResults:
    """The questions of ``position_curve`` with no document (``closed book``) and with only the gold (``oracle``)."""
    ways: dict[str, Callable[[DocumentItem], Prompt]] = {"closed book": task.closed_book, "oracle": task.oracle}
    prompt_sets = [
        PromptSet(item.id, tuple(way(item) for way in ways.values()), task.gold(item), task.accepted(item))
        for item in task.items(n, seed)
    ]
    return run_conditions(llm, task.name, tuple(ways), prompt_sets, task.max_tokens, store)


def paper_file(documents: int) -> Path | None:
    """The paper's file of ``documents`` documents, gold first, if a data folder has it (see ``datasets.placed``)."""
    return datasets.placed(PAPER_FILE.format(documents))


def read_paper_file(path: Path, documents: int) -> list[DocumentItem]:
    """The items of a paper file. Raises ValueError with the line of one without one gold among ``documents``."""
    items = []
    for number, record in enumerate(json_lines(path)):
        id_ = f"nq-{number}"
        try:
            passages, question, answers = record["ctxs"], record["question"], tuple(record["answers"])
            chunks = [Chunk(id_, i, p["text"], 0, len(p["text"]), p["title"]) for i, p in enumerate(passages)]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number + 1} lacks a field of the paper's ({error!r}).") from error
        gold = [i for i, passage in enumerate(passages) if passage.get("isgold")]
        if len(gold) != 1 or len(chunks) != documents:
            found = f"{len(gold)} gold passages among {len(chunks)}"
            raise ValueError(f"{path}, line {number + 1} has {found}; one among {documents} is needed.")
        others = tuple(chunk for chunk in chunks if chunk.index != gold[0])
        items.append(DocumentItem(id_, question, answers, chunks[gold[0]], others))
    if not items:
        raise ValueError(f"{path} holds no records.")
    return items
