"""A prompt as the token ids that a chat model expects, its texts kept apart from the control tokens."""

import re
from typing import Any, NamedTuple

from rag_lab.llm.prompt import Prompt

_MARK = re.compile("\ue000(\\d+)\ue001")  # stands for a message's text while the template is filled in


class ChatTokens(NamedTuple):
    """``ids`` of the whole prompt; the first ``fixed`` of them lie before the end of its last ``cache`` block.

    The last ``beginning`` of them are the assistant's beginning. Both are 0 where there is no such thing.
    """

    ids: list[int]
    fixed: int
    beginning: int


def text_tokens(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text in which nothing is a control token, whatever it looks like."""
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False).input_ids


def common_length(first: list[int], second: list[int]) -> int:
    """How many ids the two begin with in common."""
    for i, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return i
    return min(len(first), len(second))


def chat_tokens(tokenizer: Any, prompt: Prompt) -> ChatTokens:
    """Fill in the tokenizer's chat template and tokenise it.

    Control tokens come from the template alone: a document that contains ``<|im_end|>`` is read as those characters.
    The assistant's beginning is tokenised on its own; where blocks meet makes no difference to the ids. Raises
    ValueError where the prompt has no user turn last (but for a beginning) or the tokenizer has no chat template.
    """
    turns = [(str(turn.role), turn.blocks) for turn in prompt.turns]
    beginning = turns.pop()[1] if turns and turns[-1][0] == "assistant" else ()
    if not turns or turns[-1][0] != "user":
        raise ValueError("The prompt needs a user turn last, or before the assistant's beginning.")
    if not tokenizer.chat_template:
        raise ValueError(f"{tokenizer.name_or_path} has no chat template; choose an instruction-tuned model.")
    if prompt.system:
        turns.insert(0, ("system", prompt.system))
    messages = [{"role": role, "content": f"\ue000{i}\ue001"} for i, (role, _) in enumerate(turns)]
    filled = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    control = {token.content: i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    control_pattern = _control_pattern(tokenizer)

    ids: list[int] = []
    fixed = 0
    text = ""  # not yet tokenised; the last cached block in it ends at ``cut``
    cut = 0

    def tokenise() -> None:
        nonlocal fixed, text, cut
        found = text_tokens(tokenizer, text)
        if cut:
            fixed = len(ids) + common_length(found, text_tokens(tokenizer, text[:cut]))
        ids.extend(found)
        text, cut = "", 0

    for i, piece in enumerate(_MARK.split(filled)):
        if i % 2 == 0:  # the template's own text
            for j, part in enumerate(control_pattern.split(piece)):
                if j % 2 == 0:
                    text += part
                else:
                    tokenise()
                    ids.append(control[part.strip()])
        else:
            for block in turns[int(piece)][1]:
                text += block.text
                cut = len(text) if block.cache else cut
    tokenise()
    last = text_tokens(tokenizer, "".join(block.text for block in beginning))
    ids += last
    if any(block.cache for block in beginning):
        fixed = len(ids)
    return ChatTokens(ids, fixed, len(last))


def _control_pattern(tokenizer: Any) -> re.Pattern[str]:
    """Matches one control token, with the white space that some of them swallow."""
    tokens = [token for token in tokenizer.added_tokens_decoder.values() if token.special]
    tokens.sort(key=lambda token: -len(token.content))
    alternatives = [
        (r"\s*" if token.lstrip else "") + re.escape(token.content) + (r"\s*" if token.rstrip else "")
        for token in tokens
    ]
    return re.compile(f"({'|'.join(alternatives) or '(?!)'})")
