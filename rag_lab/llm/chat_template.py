"""A prompt as the token ids that a chat model expects; only the chat template may bring control tokens."""

import re
from typing import Any, NamedTuple

from rag_lab.llm.prompt import Block, Prompt

_MARK = re.compile("\ue000(\\d+)\ue001")  # a message's place while the template is filled in


class ChatTokens(NamedTuple):
    """The ids of a prompt. Its first ``prefix_length`` lie before the end of its last ``cache`` block.

    Its last ``prefill_length`` are the assistant's prefill. Both are 0 if there is none.
    """

    ids: list[int]
    prefix_length: int
    prefill_length: int


def text_tokens(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text in which nothing is a control token, even if it looks like one."""
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False).input_ids


def common_length(first: list[int], second: list[int]) -> int:
    """The length of the longest common prefix."""
    differing = (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differing, min(len(first), len(second)))


def chat_tokens(tokenizer: Any, prompt: Prompt) -> ChatTokens:
    """Fill in the tokenizer's chat template and tokenise the result.

    Control tokens come from the template alone: a document that contains ``<|im_end|>`` is read as those characters.
    The boundaries between blocks do not change the ids, except that the prefill is tokenised alone.
    A template without a system role gets the system text at the beginning of the first user turn. Raises ValueError
    if the last turn before a prefill is not the user's, if there is no chat template, or if it leaves a message out.
    """
    turns = [(str(turn.role), turn.blocks) for turn in prompt.turns]
    prefill = turns.pop()[1] if turns and turns[-1][0] == "assistant" else ()
    if not turns or turns[-1][0] != "user":
        raise ValueError("The prompt needs a user turn at its end, or before the assistant's prefill.")
    if not tokenizer.chat_template:
        raise ValueError(f"{tokenizer.name_or_path} has no chat template; choose an instruction-tuned model.")
    turns, filled = _filled(tokenizer, turns, prompt.system)
    control_ids = {token.content: i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    control_pattern = _control_pattern(tokenizer)

    ids: list[int] = []
    prefix_length = 0
    text = ""  # not yet tokenised; the last cached block in it ends at ``cached_chars``
    cached_chars = 0

    def tokenise() -> None:
        nonlocal prefix_length, text, cached_chars
        found = text_tokens(tokenizer, text)
        if cached_chars:
            prefix_length = len(ids) + common_length(found, text_tokens(tokenizer, text[:cached_chars]))
        ids.extend(found)
        text, cached_chars = "", 0

    for i, part in enumerate(_MARK.split(filled)):
        if i % 2:  # the number of a message
            for block in turns[int(part)][1]:
                text += block.text
                cached_chars = len(text) if block.cache else cached_chars
            continue
        for j, own in enumerate(control_pattern.split(part)):  # the template's own text
            if j % 2:
                tokenise()
                ids.append(control_ids[own.strip()])
            else:
                text += own
    tokenise()
    prefill_ids = text_tokens(tokenizer, "".join(block.text for block in prefill))
    ids += prefill_ids
    return ChatTokens(ids, len(ids) if any(block.cache for block in prefill) else prefix_length, len(prefill_ids))


Message = tuple[str, tuple[Block, ...]]  # role and content


def _filled(tokenizer: Any, turns: list[Message], system: tuple[Block, ...]) -> tuple[list[Message], str]:
    """The messages, and the template filled in with a mark for each.

    Templates differ: some have no system role, and some take content as a list of parts. A template is right if it
    shows every mark once and in order.
    """
    from jinja2 import TemplateError

    attempts = [turns]
    if system:
        first = next(i for i, (role, _) in enumerate(turns) if role == "user")
        merged = [*turns[:first], ("user", (*system, Block("\n\n"), *turns[first][1])), *turns[first + 1 :]]
        attempts = [[("system", system), *turns], merged]
    problem = "it leaves text out"
    for messages in attempts:
        marks = [f"\ue000{i}\ue001" for i in range(len(messages))]
        for contents in (marks, [[{"type": "text", "text": mark}] for mark in marks]):
            request = [{"role": role, "content": c} for (role, _), c in zip(messages, contents, strict=True)]
            try:
                filled = tokenizer.apply_chat_template(request, tokenize=False, add_generation_prompt=True)
            except (TemplateError, TypeError) as error:  # what the template raises, or text where it expects parts
                problem = str(error)
                continue
            if [match[0] for match in _MARK.finditer(filled)] == marks:
                return messages, filled
    raise ValueError(
        f"The chat template of {tokenizer.name_or_path} does not take these messages ({problem}): leave out the "
        "system text or the history, or choose another model."
    )


def _control_pattern(tokenizer: Any) -> re.Pattern[str]:
    """Matches one control token, with the white space that some of them swallow."""
    tokens = [token for token in tokenizer.added_tokens_decoder.values() if token.special]
    tokens.sort(key=lambda token: -len(token.content))
    alternatives = [
        (r"\s*" if token.lstrip else "") + re.escape(token.content) + (r"\s*" if token.rstrip else "")
        for token in tokens
    ]
    return re.compile(f"({'|'.join(alternatives) or '(?!)'})")
