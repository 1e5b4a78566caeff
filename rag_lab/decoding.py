"""The steps that writing with a local model is made of."""

from typing import Any


def forward(model: Any, rows: list[list[int]], state: Any, keep: int = 1) -> Any:
    """Read ``rows`` of equal length, extending ``state``; the last ``keep`` logits, (rows, keep, vocabulary)."""
    import torch

    with torch.inference_mode():
        ids = torch.tensor(rows, device=model.device)
        return model(input_ids=ids, cache=state, logits_to_keep=keep).logits


def choose(logits: Any, temperature: float, generator: Any) -> int:
    """The likeliest token at temperature 0, else one drawn from ``softmax(logits / temperature)``."""
    import torch

    if temperature == 0:
        return int(logits.argmax())
    chances = torch.softmax(logits.float().cpu() / temperature, dim=-1)
    return int(torch.multinomial(chances, 1, generator=generator))


def unsettled(text: str, stop: tuple[str, ...]) -> int:
    """How many characters at the end may still change or go: a character half read, a stop text half written."""
    partial = len(text) - len(text.rstrip("\ufffd"))
    begun = (n for mark in stop for n in range(1, len(mark)) if text.endswith(mark[:n]))
    return max(partial, *begun, 0)
