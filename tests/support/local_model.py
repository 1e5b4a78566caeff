"""The bundled model in float32, loaded once for all tests, and a tiny random one."""

import functools
from typing import Any

from rag_lab.llm.local import LocalLLM


@functools.cache
def _loaded() -> LocalLLM:
    return LocalLLM.load("smollm2", dtype="float32", device="cpu")


def smollm2(prefix_cache: bool = True) -> LocalLLM:
    """A LocalLLM that has read nothing yet."""
    return LocalLLM("smollm2", _loaded().model, _loaded().tokenizer, prefix_cache)


@functools.cache
def tiny_model() -> Any:
    """Two random Llama layers over 50 tokens, in float64 so that sums in another order hardly differ."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        initializer_range=0.5,
    )
    return LlamaForCausalLM(config).double().eval()
