"""Question answering over documents of which one holds the answer (Liu et al. 2023, section 2)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rag_lab import datasets
from rag_lab.chunking import chunk_corpus, chunk_paragraphs
from rag_lab.datasets import json_lines, load_nq_oracle
from rag_lab.llm.prompt import Block, Prompt, Turn
from rag_lab.metrics import span_recall
from rag_lab.prompting.build import build_prompt
from rag_lab.prompting.templates import Source, Template, assign_sources, fill, load_template, render_source
from rag_lab.retrieval.bm25 import BM25Index
from rag_lab.text.answer_matching import holds_answer
from rag_lab.types import Chunk, Corpus, Question

PAPER_SIZES = (10, 20, 30)
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
    """``documents`` passages in the paper's layout, one of which holds the answer; only its place changes.

    Of any corpus: the question's gold must lie in one chunk (questions whose gold does not, and those without an
    accepted answer, are left out), and the others are the best that BM25 finds for the question among chunks of
    which nothing that ``template`` shows holds an accepted answer (``holds_answer``), best first, as in the paper.
    ``template`` is any layout that asks in the user's turn. The expected answer is the first of the accepted ones.
    """

    max_tokens = 64  # an answer of SmolLM2 has 20 to 40; the paper took 100 and judged the first line

    def __init__(
        self,
        corpus: Corpus,
        documents: int = 20,
        chunks: Sequence[Chunk] | None = None,
        query_aware: bool = False,
        template: Template | None = None,
    ) -> None:
        """``chunks`` of the corpus, by default paragraphs, cut above 600 characters. ValueError for one document."""
        if documents < 2:
            raise ValueError(f"{documents} documents; with fewer than 2 there is no position to change.")
        if chunks is None:
            chunks = chunk_corpus(corpus.documents, chunk_paragraphs, size=600)
        self.size = documents
        self.query_aware = query_aware
        self.name = f"{corpus.name}, {documents} documents" + (", query-aware" if query_aware else "")
        self._corpus = corpus
        self._chunks = tuple(chunks)
        self._template = template or load_template("liu2023")
        self._ready: dict[str, DocumentItem] = {}

    @classmethod
    def natural_questions(cls, documents: int = 20, query_aware: bool = False) -> "MultiDocumentTask":
        """The paper's question set: its own file of 10, 20 or 30 documents where a data folder has it.

        Otherwise its oracle file, with BM25 distractors among the gold passages of the other questions:
        FileNotFoundError where that is not there either. ``name`` says which.
        """
        path = paper_file(documents)
        if path is None:
            return cls.nq_oracle(documents, query_aware)
        items = read_paper_file(path, documents)
        corpus = Corpus("nq-open (paper's file)", (), ())
        task = cls(corpus, documents, (), query_aware)
        task._ready = {item.id: item for item in items}
        return task

    @classmethod
    def nq_oracle(cls, documents: int = 20, query_aware: bool = False) -> "MultiDocumentTask":
        """The paper's questions and gold passages by its oracle file, with BM25 distractors."""
        corpus = load_nq_oracle()
        whole = [Chunk(d.id, 0, d.text, 0, len(d.text), d.title, d.uri) for d in corpus.documents]
        return cls(corpus, documents, whole, query_aware)

    @cached_property
    def _index(self) -> BM25Index:
        return BM25Index(self._chunks)

    @cached_property
    def _gold(self) -> dict[str, tuple[Question, Chunk]]:
        """Questions with the chunk that holds all of their gold."""
        by_document: dict[str, list[Chunk]] = {}
        for chunk in self._chunks:
            by_document.setdefault(chunk.doc_id, []).append(chunk)
        found = {}
        for question in self._corpus.questions:
            if question.answerable and question.answers:
                candidates = by_document.get(question.gold[0].doc_id, [])
                whole = [chunk for chunk in candidates if span_recall([chunk], question.gold) == 1.0]
                if whole:
                    found[question.id] = (question, whole[0])
        return found

    @property
    def questions(self) -> int:
        """How many questions there are to draw from."""
        return len(self._ready or self._gold)

    def items(self, n: int, seed: int = 0) -> list[DocumentItem]:
        """``n`` questions; the same seed gives the same. ValueError for too few questions or too few distractors."""
        known = sorted(self._ready or self._gold)
        if not 1 <= n <= len(known):
            raise ValueError(f"n is {n}; {self.name} has {len(known)} questions whose gold lies in one passage.")
        return [self._ready.get(id_) or self._item(id_) for id_ in random.Random(seed).sample(known, n)]

    def _item(self, id_: str) -> DocumentItem:
        question, gold = self._gold[id_]
        wanted = self.size - 1

        def allowed(chunk: Chunk) -> bool:
            source = Source("", chunk)
            fields = {"uri": source.uri, "section": " / ".join(source.section_path), "date": source.date}
            shown = [value for name, value in fields.items() if f"{{{name}}}" in self._template.source]
            return not any(holds_answer(text, question.answers) for text in (f"{chunk.title}\n{chunk.text}", *shown))

        seen = {gold.text}
        distractors: list[Chunk] = []
        ranked = [hit.chunk for hit in self._index.search(question.text, len(self._chunks))]
        ids = {chunk.id for chunk in ranked}
        rest = [chunk for chunk in self._chunks if chunk.id not in ids]
        random.Random(id_).shuffle(rest)  # chunks without a word of the question, where the others are too few
        for chunk in [*ranked, *rest]:
            if len(distractors) == wanted:
                break
            if chunk.text not in seen and chunk.id != gold.id and allowed(chunk):
                seen.add(chunk.text)
                distractors.append(chunk)
        if len(distractors) < wanted:
            raise ValueError(
                f"{self.name}: only {len(distractors)} passages hold no answer to {question.text!r}, and {wanted} "
                "are needed; take fewer documents or smaller chunks."
            )
        return DocumentItem(id_, question.text, question.answers, gold, tuple(distractors))

    def prompt(self, item: DocumentItem, position: int) -> Prompt:
        """The prompt with the gold passage at ``position`` (from 0); what stands before it is marked for the cache.

        Every passage before the gold is a block of its own, so that a cache finds where two positions part.
        """
        if not 0 <= position < self.size:
            raise ValueError(f"position is {position}; {self.size} documents have 0 to {self.size - 1}.")
        chunks = [*item.distractors[:position], item.passage, *item.distractors[position:]]
        return self._marked(item.question, chunks, position)

    def oracle(self, item: DocumentItem) -> Prompt:
        """The prompt with the gold passage alone: the best that reading can do."""
        return self._marked(item.question, [item.passage], 0)

    def closed_book(self, item: DocumentItem) -> Prompt:
        """The question alone, as in the paper: what the model knows without reading."""
        return Prompt.of(fill(self._template.question, {"question": item.question}))

    def gold(self, item: DocumentItem) -> str:
        """The answer whose likelihood is measured."""
        return item.answers[0]

    def accepted(self, item: DocumentItem) -> tuple[str, ...]:
        """What a right answer must hold, one of them."""
        return item.answers

    def _marked(self, question: str, chunks: Sequence[Chunk], position: int) -> Prompt:
        sources = assign_sources(chunks)
        whole = build_prompt(question, sources, template=self._template, query_aware=self.query_aware)
        turn = whole.turns[-1]
        rendered = [render_source(s, i, self._template) for i, s in enumerate(sources, 1)]
        text = turn.blocks[0].text
        start = len(text) - len(self._template.after) - sum(map(len, rendered))
        blocks = [Block(text[:start])]
        for i, piece in enumerate(rendered[:position], 1):
            blocks.append(Block(piece, cache="5m" if i == position else ""))
        blocks.append(Block("".join(rendered[position:]) + self._template.after))
        return Prompt((*whole.turns[:-1], Turn("user", (*blocks, *turn.blocks[1:]))), whole.system)


def paper_file(documents: int) -> Path | None:
    """The paper's file of so many documents, gold first, in a data folder's ``lost-in-the-middle`` (or below it)."""
    return datasets.placed(PAPER_FILE.format(documents)) if documents in PAPER_SIZES else None


def read_paper_file(path: Path, documents: int) -> list[DocumentItem]:
    """The items of such a file. ValueError naming the line of one with other than one gold of ``documents``."""
    items = []
    for number, record in enumerate(json_lines(path)):
        try:
            passages, question, answers = record["ctxs"], record["question"], tuple(record["answers"])
            chunks = [
                Chunk(f"nq-{number}", i, passage["text"], 0, len(passage["text"]), passage["title"])
                for i, passage in enumerate(passages)
            ]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number + 1} lacks a field of the paper's ({error!r}).") from error
        gold = [i for i, passage in enumerate(passages) if passage.get("isgold")]
        if len(gold) != 1 or len(chunks) != documents:
            found = f"{len(gold)} gold passages among {len(chunks)}"
            raise ValueError(f"{path}, line {number + 1} has {found}; one among {documents} is needed.")
        others = tuple(chunk for chunk in chunks if chunk.index != gold[0])
        items.append(DocumentItem(f"nq-{number}", question, answers, chunks[gold[0]], others))
    if not items:
        raise ValueError(f"{path} holds no records.")
    return items
