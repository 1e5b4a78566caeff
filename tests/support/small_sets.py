"""Small stand-ins for the published data sets."""

from dataclasses import replace

from rag_lab.types import Chunk, Corpus, Document, GoldSpan, Question, RetrievalSet

TOPICS = ("rain", "bread", "ships", "clocks", "wolves", "glass", "tea", "maps", "salt", "bells")


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
    """``small_set`` whose gold are chunks."""
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
