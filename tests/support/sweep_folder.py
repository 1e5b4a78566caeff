"""A folder of three documents with questions, and a sweep over them that needs no model but MiniLM, or none."""

import json
from pathlib import Path

DOCUMENTS = {
    "canteen": "# The canteen\n\nThe canteen opens at 11:30. It serves lunch until 14:00.\n\n"
    "Soup costs 3 euros. Cakes are baked on Fridays.\n",
    "garage": "# The garage\n\nThe garage has 40 places. It closes at 21:00.\n\n"
    "Bicycles stand on level 2. Trucks are not allowed.\n",
    "library": "# The library\n\nThe library lends books for 28 days. It is open to all staff.\n\n"
    "A lost book costs 15 euros. Maps are not lent.\n",
}
QUESTIONS = [
    ("When does the canteen open?", "11:30", "canteen", "The canteen opens at 11:30."),
    ("What does soup cost in the canteen?", "3 euros", "canteen", "Soup costs 3 euros."),
    ("How many places has the garage?", "40", "garage", "The garage has 40 places."),
    ("For how long does the library lend books?", "28 days", "library", "The library lends books for 28 days."),
    ("What does a lost book cost?", "15 euros", "library", "A lost book costs 15 euros."),
    ("Who is the chief gardener?", "", "", ""),
    ("Which colour has the lift?", "", "", ""),
]
# Two chunkings, so two groups of work, and three values of k.
SWEEP = """\
sweep_mode: grid
documents: documents
questions: questions.jsonl
fixed:
  embedding.model: minilm
  extractive.threshold: 0.4
sweep:
  chunking.strategy: [by_sentences, by_paragraphs]
  retrieval.method: [bm25]
  retrieval.top_k: [1, 2, 3]
"""


def write(folder: Path, sweep: str = SWEEP) -> Path:
    """The sweep's file, with everything that it names beside it."""
    (folder / "documents").mkdir(exist_ok=True)
    for name, text in DOCUMENTS.items():
        (folder / "documents" / f"{name}.md").write_text(text, encoding="utf-8")
    records = []
    for number, (question, answer, doc_id, gold) in enumerate(QUESTIONS, 1):
        start = DOCUMENTS[doc_id].index(gold) if doc_id else 0
        golds = [{"doc_id": doc_id, "start": start, "end": start + len(gold), "text": gold}] if doc_id else []
        answers = [answer] if answer else []
        record = {"id": f"q{number}", "text": question, "answers": answers, "gold": golds}
        records.append(record | {"reference": "", "language": "en"})
    lines = "".join(f"{json.dumps(record)}\n" for record in records)
    (folder / "questions.jsonl").write_text(lines, encoding="utf-8")
    path = folder / "small.yaml"
    path.write_text(sweep, encoding="utf-8")
    return path
