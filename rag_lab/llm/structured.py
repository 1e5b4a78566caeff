"""JSON from a language model: the one way to request it and to read it."""

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rag_lab.llm.language_model import LanguageModel
from rag_lab.llm.prompt import Prompt

M = TypeVar("M", bound=BaseModel)


class InvalidJSON(ValueError):  # noqa: N818
    """A model's text holds no JSON object of the requested form. It is a failed call, never an answer."""


def complete_json(llm: LanguageModel, prompt: Prompt, model: type[M], max_tokens: int = 256) -> M:
    """Ask ``llm`` for JSON of the form of ``model`` at temperature 0, and read it.

    Raises InvalidJSON if the text holds no such object: small local models fail often. Raises what ``llm.complete``
    raises.
    """
    completion = llm.complete(prompt, max_tokens=max_tokens, schema=json_schema(model))
    try:
        return parse_json(completion.text, model)
    except InvalidJSON as error:
        remedy = "ask again or use a larger model"
        if completion.stop_reason == "max_tokens":
            remedy = f"it was cut off at max_tokens={max_tokens}: raise that"
        raise InvalidJSON(f"{llm.name}: {error} To fix it, {remedy}.") from error


def parse_json(text: str, model: type[M]) -> M:
    """The first JSON object in ``text`` as ``model``. Types are not converted: "true" is no boolean.

    Raises InvalidJSON with the beginning of the text if there is none or if it does not fit.
    """
    try:
        start = text.index("{")
        _, end = json.JSONDecoder().raw_decode(text, start)
        return model.model_validate_json(text[start:end], strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the object"
        reason = f"{where}: {first['msg']}"
    except (ValueError, RecursionError):
        reason = "there is no complete JSON object in it"
    fields = ", ".join(model.model_fields)
    raise InvalidJSON(f"The text is not JSON with the fields {fields} ({reason}) but {text[:80]!r}.")


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of ``model``: fields and their descriptions, without titles, docstrings and references."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            return plain(definitions[value["$ref"].rsplit("/", 1)[-1]])
        # A field that is named "title" has a schema, not a string.
        found = {key: plain(item) for key, item in value.items() if key != "title" or isinstance(item, dict)}
        if found.get("type") == "object":
            found.pop("description", None)
            found["additionalProperties"] = False
        return {"type": found.pop("type"), **found} if "type" in found else found

    cleaned: dict[str, Any] = plain(schema)
    return cleaned
