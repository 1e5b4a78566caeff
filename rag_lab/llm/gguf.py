"""GGUF files de-quantised once and kept, as float32 safetensors, in the cache folder."""

import hashlib
import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

from rag_lab import settings
from rag_lab.storage import content_key

MANIFEST = "manifest.json"


def dequantised(gguf: Path) -> Path:
    """A folder that ``from_pretrained`` reads: the model and tokenizer of a GGUF file, weights in float32.

    The first call takes 2 to 15 s for 135 M parameters; later ones check the kept files' SHA-256 (0.4 s). The
    folder's name holds a digest of the GGUF and of the versions that convert it. It is written aside and moved
    into place whole; a damaged one is rebuilt with a warning. Processes that come at once wait for the first.
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
        if folder.exists():
            if _is_intact(folder):
                return folder
            warnings.warn(f"{folder} is damaged or incomplete; it is built again.", stacklevel=2)
            shutil.rmtree(folder)
        shutil.rmtree(part, ignore_errors=True)  # what a killed process left behind
        try:
            _convert(gguf, part)
            _write_manifest(part)
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

    SmolLM was trained with every digit split off before anything else (llama.cpp, ``LLAMA_VOCAB_PRE_TYPE_SMOLLM``);
    without it the white space before a number is cut into other tokens than those the model knows.
    """
    from gguf import GGUFReader
    from tokenizers import pre_tokenizers

    field = GGUFReader(gguf).get_field("tokenizer.ggml.pre")
    if field is not None and field.contents() == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])


def _write_manifest(folder: Path) -> None:
    files = {path.name: _fingerprint(path) for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(json.dumps(files, indent=1), encoding="utf-8")


def _is_intact(folder: Path) -> bool:
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return bool(files) and all(_fingerprint(folder / name) == kept for name, kept in files.items())
    except (OSError, ValueError, AttributeError):  # missing or unreadable: that is what is asked here
        return False


def _fingerprint(path: Path) -> list[Any]:
    with open(path, "rb") as file:
        return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]
