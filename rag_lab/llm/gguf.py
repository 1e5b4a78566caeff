"""GGUF files, de-quantised once and kept as float32 safetensors in the cache folder."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from rag_lab import settings
from rag_lab.storage import content_key


def dequantised(gguf: Path) -> Path:
    """A folder for ``from_pretrained``: the model and tokenizer of a GGUF file, with weights in float32.

    The first call takes 2 to 15 s for 135 M parameters. The folder's name has a digest of the GGUF and of the
    versions that convert it. It is written aside and moved into place whole; other processes wait meanwhile.
    """
    import gguf as gguf_package
    import transformers
    from filelock import FileLock

    with open(gguf, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    key = content_key(digest, transformers.__version__, getattr(gguf_package, "__version__", ""))[:16]
    folder = settings.cache_folder() / "gguf" / f"{gguf.stem}-{key}"
    folder.parent.mkdir(exist_ok=True)
    part = folder.with_name(folder.name + ".part")
    with FileLock(folder.with_name(folder.name + ".lock")):
        if not folder.exists():
            shutil.rmtree(part, ignore_errors=True)  # left behind by a killed process
            try:
                _convert(gguf, part)
                os.replace(part, folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    _split_digits(gguf, tokenizer)
    tokenizer.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(gguf_file=gguf.name, dequantize=True),  # else it cannot be saved
    )
    model.save_pretrained(folder)


def _split_digits(gguf: Path, tokenizer: Any) -> None:
    """Give SmolLM's tokenizer the first step that transformers leaves out when it reads a GGUF.

    SmolLM was trained with each digit split off first (llama.cpp, ``LLAMA_VOCAB_PRE_TYPE_SMOLLM``). Without that, the
    white space before a number becomes tokens that the model does not know there.
    """
    from gguf import GGUFReader
    from tokenizers import pre_tokenizers

    field = GGUFReader(gguf).get_field("tokenizer.ggml.pre")
    if field is not None and field.contents() == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
