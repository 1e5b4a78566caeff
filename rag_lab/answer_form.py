"""The JSON form of an answer: what the model is asked for, and the reading of what it wrote."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Goes behind the system prompt, whose rules it refers to; so that its tokens are counted with the prompt.
INSTRUCTION = """\
Write your answer as one JSON object and nothing else, in this form:
{"answer": "…", "citations": [{"source_id": "S1", "quote": "…"}], "sufficient": true}
- answer: the text that the rules above ask for, with the ids in square brackets.
- citations: for every claim the id of a source that states it, and the words of that source that do, copied exactly.
- sufficient: true if the sources hold the whole answer; else false, and answer is the part they hold, or empty."""

_CITATION = {
    "type": "object",
    "properties": {"source_id": {"type": "string"}, "quote": {"type": "string"}},
    "required": ["source_id", "quote"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string"},
        "citations": {"type": "array", "items": _CITATION},
        "sufficient": {"type": "boolean"},
    },
    "required": ["answer", "citations", "sufficient"],
    "additionalProperties": False,
}

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL | re.IGNORECASE)
_KINDS = {str: "a string", list: "a list", bool: "true or false", dict: "an object"}


@dataclass(frozen=True)
class Form:
    """An answer as the model filled the form in; ``citations`` are (source id, quote)."""

    answer: str
    citations: tuple[tuple[str, str], ...]
    sufficient: bool


def visible(text: str) -> bool:
    """Whether there is a character to be seen: white space and zero-width or direction marks are none."""
    return any(character.isprintable() and not character.isspace() for character in text)


def read_form(text: str) -> Form:
    """The form in ``text``, which is the JSON object and nothing else, but for a Markdown fence around it.

    ValueError, in words that can be shown to the model, for anything that is not JSON, a key that is missing or
    unknown, a value of another type, and an empty answer that calls itself sufficient.
    """
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except json.JSONDecodeError as error:
        raise ValueError(f"It is not JSON: {error}.") from error
    except RecursionError as error:
        raise ValueError("It is not JSON of this form: it is nested too deep.") from error
    fields = _fields(value, {"answer": str, "citations": list, "sufficient": bool}, "it")
    citations = [_fields(c, {"source_id": str, "quote": str}, "a citation") for c in fields["citations"]]
    if fields["sufficient"] and not visible(fields["answer"]):
        raise ValueError("answer is empty, though sufficient is true.")
    pairs = tuple((citation["source_id"], citation["quote"]) for citation in citations)
    return Form(fields["answer"], pairs, fields["sufficient"])


def _fields(value: Any, kinds: Mapping[str, type], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object with the keys {', '.join(kinds)}.")
    if missing := [key for key in kinds if key not in value]:
        raise ValueError(f"{what} has no key {missing[0]!r}.")
    if unknown := [key for key in value if key not in kinds]:
        raise ValueError(f"{what} has the key {unknown[0][:40]!r}; the keys are {', '.join(kinds)}.")
    for key, kind in kinds.items():
        if not isinstance(value[key], kind):
            raise ValueError(f"{key} is not {_KINDS[kind]}.")
    return value
