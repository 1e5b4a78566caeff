"""The JSON form: what can be read, and what is said of what cannot."""

import json

import pytest

from rag_lab.answering.pipeline import SCHEMA, Form, read_form

GOOD = {
    "answer": "کلاس‌ها [S1] 😀",
    "citations": [{"source_id": "S1", "quote": "כלבים מותרים במשרד"}],
    "sufficient": True,
}
READ = Form("کلاس‌ها [S1] 😀", (("S1", "כלבים מותרים במשרד"),), True)


@pytest.mark.parametrize("text", [json.dumps(GOOD), json.dumps(GOOD, ensure_ascii=False, indent=2)])
@pytest.mark.parametrize("wrap", ["{}", " \n{}\n", "```json\n{}\n```", "```\n{}\n```\n", "\n```JSON \n{}\n```"])
def test_the_object_alone_or_in_a_fence_is_read(text: str, wrap: str) -> None:
    assert read_form(wrap.replace("{}", text)) == READ


def without(key: str) -> dict[str, object]:
    return {name: value for name, value in GOOD.items() if name != key}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "it is not an object with the keys answer, citations, sufficient"),
        (without("answer"), "it has no key 'answer'"),
        (without("citations"), "it has no key 'citations'"),
        (GOOD | {"note": 1}, "it has the key 'note'"),
        (GOOD | {"answer": None}, "answer is not a string"),
        (GOOD | {"sufficient": "true"}, "sufficient is not true or false"),
        (GOOD | {"sufficient": 1}, "sufficient is not true or false"),
        (GOOD | {"citations": {}}, "citations is not a list"),
        (GOOD | {"citations": ["S1"]}, "a citation is not an object"),
        (GOOD | {"citations": [{"source_id": "S1"}]}, "a citation has no key 'quote'"),
        (GOOD | {"citations": [{"source_id": 1, "quote": "x"}]}, "source_id is not a string"),
        (GOOD | {"answer": " "}, "answer is empty, though sufficient is true"),
        (GOOD | {"answer": "\u200b\u200f\ufeff"}, "answer is empty, though sufficient is true"),
    ],
)
def test_another_shape_is_refused_in_words(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_form(json.dumps(value))


@pytest.mark.parametrize(
    "text", ["", "Dogs are allowed.", 'Here it is: {"answer": ""}', '{"answer": "a', "[" * 100_000]
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="It is not JSON"):
        read_form(text)


def test_the_schema_asks_for_what_is_read() -> None:
    assert set(SCHEMA["required"]) == set(SCHEMA["properties"]) == set(GOOD)
    item = SCHEMA["properties"]["citations"]["items"]
    assert set(item["required"]) == set(item["properties"]) == {"source_id", "quote"}
