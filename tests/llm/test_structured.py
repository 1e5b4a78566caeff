"""JSON from a model: what is requested, what is read, and what is refused."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from rag_lab.llm.prompt import Prompt
from rag_lab.llm.structured import InvalidJSON, complete_json, json_schema, parse_json
from tests.support.answer_doubles import Scripted


class Verdict(BaseModel):
    """Not part of the request."""

    title: str = Field(description="one word")
    helps: bool
    kind: Literal["a", "b"]
    pages: tuple[int, ...] = ()


GOOD = '{"title": "x", "helps": true, "kind": "a", "pages": [1, 2]}'
READ = Verdict(title="x", helps=True, kind="a", pages=(1, 2))


def test_the_schema_has_fields_and_descriptions_but_no_titles() -> None:
    assert json_schema(Verdict) == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "one word"},
            "helps": {"type": "boolean"},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "pages": {"type": "array", "items": {"type": "integer"}, "default": []},
        },
        "required": ["title", "helps", "kind"],
        "additionalProperties": False,
    }

    class Pair(BaseModel):
        """Not part of the request either."""

        verdicts: list[Verdict]

    assert json_schema(Pair)["properties"] == {"verdicts": {"type": "array", "items": json_schema(Verdict)}}


@pytest.mark.parametrize("text", [GOOD, f"```json\n{GOOD}\n```", f"Here it is: {GOOD} I hope that {{it}} helps."])
def test_the_first_object_in_the_text_is_read(text: str) -> None:
    assert parse_json(text, Verdict) == READ


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no complete JSON object"),
        ("No.", "no complete JSON object"),
        ("[1, 2]", "no complete JSON object"),
        (GOOD[:-1], "no complete JSON object"),
        ('{"a":' * 100_000, "no complete JSON object"),
        ("{}", "title: Field required"),
        (GOOD.replace("true", '"true"'), "helps: Input should be a valid boolean"),
        (GOOD.replace("true", "1"), "helps: Input should be a valid boolean"),
        (GOOD.replace('"a"', '"c"'), "kind: Input should be 'a' or 'b'"),
        (GOOD.replace("2]", "null]"), "pages.1: Input should be a valid integer"),
    ],
)
def test_anything_else_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidJSON, match=reason) as refused:
        parse_json(text, Verdict)
    assert "title, helps, kind, pages" in str(refused.value)
    assert repr(text[:80]) in str(refused.value)


def test_the_schema_is_requested_and_the_error_names_model_and_remedy() -> None:
    llm: Any = Scripted(GOOD, "No.")
    assert complete_json(llm, Prompt.of("Does it help?"), Verdict) == READ
    assert llm.schemas == [json_schema(Verdict)]
    with pytest.raises(InvalidJSON, match=r"^scripted: .*ask again or use a larger model"):
        complete_json(llm, Prompt.of("Does it help?"), Verdict)
    cut: Any = Scripted(GOOD[:20], stop_reason="max_tokens")
    with pytest.raises(InvalidJSON, match="cut off at max_tokens=7: raise that"):
        complete_json(cut, Prompt.of("Does it help?"), Verdict, max_tokens=7)
