"""The three styles of the context prompt on SmolLM2: contexts that name their subject, tokens, and what they gain.

python -m tests.benchmarks.measure_context_forms [cities insurance]     6 minutes for cities, resumable

One sentence per chunk for cities, one section for insurance; English documents. "named" is the share of contexts with
the document's subject in them: its title (cities), its line of insurance. Gains are paired differences of span recall
from MiniLM without context. Heading context, which needs no model, is measured too.
"""

import sys
from typing import get_args

from rag_lab import datasets, results
from rag_lab.chunking import CHUNKERS
from rag_lab.llm.local import LocalLLM
from rag_lab.llm.prompt import Usage
from rag_lab.metrics import paired_difference
from rag_lab.models.encoder import Encoder
from rag_lab.retrieval.contextual import PromptStyle, add_heading_context, generate_contexts
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.evaluate import span_recalls
from rag_lab.types import Chunk, Document

COMMAND = "python -m tests.benchmarks.measure_context_forms"
CUT = {"cities": "by_sentences", "insurance": "by_headings"}
KS = (5, 10)
RECORDED = {"prefill": "beginning"}  # the name of the style in recorded rows


def corpus_rows(name: str, llm: LocalLLM, encoder: Encoder) -> list[dict]:
    corpus = datasets.load_corpus(name)
    documents = [d for d in corpus.documents if d.metadata.get("language", "en") == "en"]
    questions = [q for q in corpus.questions if q.answerable and q.language == "en"]
    vectors = encoder.encode([q.text for q in questions], kind="query")
    queries = dict(zip((q.text for q in questions), vectors, strict=True))
    subjects = {d.id: str(d.metadata.get("line", d.title)).casefold() for d in documents}
    chunks = [c for d in documents for c in CHUNKERS[CUT[name]](d)]

    def contexts(way: str) -> tuple[list[Chunk], Usage]:
        if way == "none":
            return chunks, Usage()
        if way == "headings":
            return [c for d in documents for c in add_heading_context(d, _of(d, chunks))], Usage()
        situated = list(generate_contexts(documents, chunks, llm, way))  # type: ignore[arg-type]
        return [c for c, _ in situated], sum((usage for _, usage in situated), Usage())

    rows = []
    recalls = {}
    for way in ("none", "headings", *get_args(PromptStyle)):
        situated, usage = contexts(way)
        index = DenseIndex(situated, encoder.encode([c.contextual_text for c in situated]))
        recalls[way] = span_recalls(lambda text, k, index=index: index.search(queries[text], k), questions, KS)
        row = {
            "corpus": name,
            "context": RECORDED.get(way, way),
            "chunks": len(situated),
            "questions": len(questions),
            "named": sum(subjects[c.doc_id] in c.context.casefold() for c in situated) / len(situated),
            "tokens_read": usage.input_tokens + usage.cache_write_tokens,
            "tokens_written": usage.output_tokens,
            "seconds": round(usage.seconds, 1),
        }
        for k in KS:
            gain = paired_difference(recalls[way][k], recalls["none"][k])
            row |= {f"recall@{k}": float(recalls[way][k].mean()), f"gain@{k}": gain.value}
            row |= {f"gain@{k}_low": gain.low, f"gain@{k}_high": gain.high}
        rows.append(row)
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return rows


def _of(document: Document, chunks: list[Chunk]) -> list[Chunk]:
    return [c for c in chunks if c.doc_id == document.id]


def main() -> int:
    """Measure and record; corpora that are not named keep their rows."""
    names = sys.argv[1:] or list(CUT)
    llm = LocalLLM.load("smollm2", dtype="bfloat16")
    encoder = Encoder.load("minilm")
    recorded = results.RESULTS / "context_forms.json"
    rows = results.load_result("context_forms")["rows"] if recorded.exists() else []
    rows = [row for row in rows if row["corpus"] not in names]
    rows += [row for name in names for row in corpus_rows(name, llm, encoder)]
    measured = sorted({row["corpus"] for row in rows})
    results.write_result(
        "context_forms",
        rows,
        model=f"{llm.name}, {llm.dtype}; minilm",
        data=", ".join(f"{name}: English, {CUT[name]}" for name in measured),
        sha256=results.digest(sorted(p for name in measured for p in (datasets.CORPORA / name).iterdir())),
        command=f"{COMMAND} {' '.join(measured)}",
        seconds=sum(row["seconds"] for row in rows),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
