"""SmolLM2's contexts for the English chunks of built-in corpora, one sentence per chunk: written once and recorded.

python -m tests.benchmarks.measure_contexts [cities insurance handbook]     4 minutes for cities, resumable
"""

import argparse
import sys
from dataclasses import asdict

from rag_lab import datasets, results, settings
from rag_lab.chunking import chunk_sentences
from rag_lab.llm.local import LocalLLM
from rag_lab.retrieval import contextual
from rag_lab.storage import Store, content_key

COMMAND = "python -m tests.benchmarks.measure_contexts"
STYLE: contextual.PromptStyle = "prefill"
MAX_TOKENS = 60


def corpus_rows(llm: LocalLLM, name: str) -> list[dict]:
    """Rows of chunk, context, tokens written, and seconds as they were when the context was written."""
    corpus = datasets.load_corpus(name)
    documents = {d.id: d for d in corpus.documents if d.metadata.get("language", "en") == "en"}
    chunks = [c for d in documents.values() for c in chunk_sentences(d, size=None)]
    contexts = [c for c, _ in contextual.generate_contexts(list(documents.values()), chunks, llm, STYLE, MAX_TOKENS)]
    store = Store(settings.cache_folder() / "contexts.jsonl")  # a resumed run finds its whole usage here
    rows = []
    for chunk in contexts:
        prompt = contextual.context_prompt(documents[chunk.doc_id].text, chunk.text, STYLE)
        record = store.get(content_key(llm.name, llm.dtype, asdict(prompt), MAX_TOKENS))
        if record is None:
            raise RuntimeError(f"{chunk.id}: its context is not in {store.path}; was its document cut in parts?")
        usage = record["usage"]
        rows.append(
            {
                "corpus": name,
                "chunk": chunk.id,
                "context": chunk.context,
                "output_tokens": usage["output_tokens"],
                "seconds": round(usage["seconds"], 3),
            }
        )
    return rows


def main() -> int:
    """Write what is missing and record; corpora that are not named keep their rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", default=["cities"])
    names = parser.parse_args().corpora
    llm = LocalLLM.load("smollm2", dtype="bfloat16")
    old = (
        results.load_result("smollm2_contexts")["rows"]
        if (results.RESULTS / "smollm2_contexts.json").exists()
        else []
    )
    rows = [row for row in old if row["corpus"] not in names]
    rows += [row for name in names for row in corpus_rows(llm, name)]
    recorded = sorted({row["corpus"] for row in rows})
    files = sorted(p for name in recorded for p in (datasets.CORPORA / name).glob("*.md"))
    results.write_result(
        "smollm2_contexts",
        rows,
        model=f"{llm.name}, {llm.dtype}, style {STYLE}",
        data=f"{', '.join(recorded)}: English, one sentence a chunk",
        sha256=results.digest(files),
        command=f"{COMMAND} {' '.join(recorded)}",
        seconds=sum(row["seconds"] for row in rows),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
