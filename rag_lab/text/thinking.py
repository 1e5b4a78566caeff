"""The thoughts that a reasoning model writes before its answer."""

OPEN, CLOSE = "<think>", "</think>"


def split_thinking(text: str) -> tuple[str, str]:
    """The thoughts, and the answer after them; no thoughts, and the text as it is, if there are none.

    Some chat templates open the thoughts in the prompt, so that only the closing tag is in the text. Thoughts that
    are not closed were cut off: there is no answer.
    """
    before, closed, after = text.partition(CLOSE)
    if closed:
        return before.strip().removeprefix(OPEN).strip(), after.lstrip()
    if text.lstrip().startswith(OPEN):
        return text.strip().removeprefix(OPEN).strip(), ""
    return "", text
