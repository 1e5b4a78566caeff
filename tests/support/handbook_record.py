"""A question about the handbook corpus, as a record of ``questions.jsonl``."""

from typing import Any

# In vacation.md, counted in data/corpora/handbook/questions.jsonl too (handbook-002).
GOLD = {"doc_id": "vacation", "start": 248, "end": 288, "text": "From the fifth year of service it is 30."}
RECORD: dict[str, Any] = {
    "id": "mine",
    "text": "How long a holiday has somebody who joined half a decade ago?",
    "answers": ["30"],
    "gold": [GOLD],
    "reference": "",
    "language": "en",
}
