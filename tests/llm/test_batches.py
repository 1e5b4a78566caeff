"""Many calls by Claude: nothing lost, nothing paid twice, every item done or failed with its reason."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rag_lab.llm import batches, claude, spending
from rag_lab.llm.language_model import CallFailed
from rag_lab.llm.prompt import Completion, Prompt
from tests.support.messages_server import (
    BATCHES,
    KEY,
    QUESTIONS,
    Fault,
    documents,
    running_server,  # noqa: F401 (a fixture)
    texts_of,
    written,
)
from tests.support.messages_server import MessagesServer as Server

HAIKU = "claude-haiku-5-5"
PROJECT = Path(__file__).parents[2]


def test_each_document_is_written_to_the_cache_once_and_its_chunks_go_in_order(messages_server: Server) -> None:
    groups = documents(5, 4)
    got = claude.ClaudeLLM(HAIKU).complete_groups(groups, at_once=3)
    for d, outcomes in enumerate(got):
        assert texts_of(outcomes) == [f"About {c} of {d}." for c in range(4)]
        usages = [item.usage for item in outcomes if isinstance(item, Completion)]
        assert [usage.cache_write_tokens > 0 for usage in usages] == [True, False, False, False]
        assert [usage.cache_read_tokens > 0 for usage in usages] == [False, True, True, True]
        asked = [body["messages"][0]["content"][1]["text"] for body in messages_server.asked()]
        assert [text for text in asked if text.endswith(f"of {d}")] == [f"chunk {c} of {d}" for c in range(4)]
    assert 2 <= messages_server.peak <= 3  # documents at once, and no more than asked for


def test_under_a_storm_of_faults_every_item_ends_done_or_with_its_reason(messages_server: Server) -> None:
    messages_server.faults = [
        *(Fault("status", status, holds=f"chunk {n} of") for n, status in enumerate((429, 529, 500, 429))),
        Fault("drop", holds="chunk 1 of 1"),
        Fault("malformed", holds="chunk 2 of 2"),
        Fault("status", 400, holds="chunk 3 of 3"),
    ]
    groups = documents(4, 4)
    model = claude.ClaudeLLM(HAIKU)
    got = [item for outcomes in model.complete_groups(groups) for item in outcomes]
    failed = [item for item in got if isinstance(item, CallFailed)]
    assert len(got) == 16
    assert sorted("400" in str(item) for item in failed) == [False, True]
    assert any("JSONDecodeError" in str(item) for item in failed)
    before = len(messages_server.asked())
    again = [item for outcomes in model.complete_groups(groups) for item in outcomes]
    assert all(isinstance(item, Completion) for item in again)
    assert len(messages_server.asked()) - before == 2  # only what had failed is asked for again
    # Answered and unreadable once, so billed twice: what no client can prevent. All others exactly once.
    assert len(messages_server.billed) == 17
    assert len(set(messages_server.billed)) == 16


def test_the_cap_stops_a_run_before_the_call_that_would_pass_it(
    messages_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Opus 5.5, 1,024 + 976 output tokens set aside: 4 cents a call at most. The answers cost 0.2 of a cent each.
    monkeypatch.setenv("RAG_LAB_MAX_USD", "0.05")
    messages_server.reply = lambda text: "x" * 400  # 100 tokens: $0.002
    prompts = [Prompt.of(f"question {n}") for n in range(10)]
    model = claude.ClaudeLLM("claude-opus-5-5")
    with pytest.raises(spending.OverBudget, match=r"of the \$0\.05 cap is left"):
        model.complete_groups([prompts], max_tokens=976)
    # After n answers $0.002 n is spent: the sixth call would set $0.04 aside with less than that left.
    assert len(messages_server.asked()) == len(messages_server.billed) == 5
    assert spending.BUDGET.spent <= 0.05
    err = capsys.readouterr().err
    assert "Estimate: claude-opus-5-5, 10 request(s)" in err
    assert f"Actual: ${spending.BUDGET.spent:.4f}" in err
    monkeypatch.setenv("RAG_LAB_MAX_USD", "1")
    whole = model.complete_groups([prompts], max_tokens=976)[0]
    assert len(whole) == 10
    assert len(messages_server.billed) == len(set(messages_server.billed)) == 10


def test_the_cap_goes_by_the_exact_count_where_the_bound_would_refuse(
    messages_server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 8,000 bytes at $4 a million could cost 3.2 cents; the server counts 2,003 tokens, 0.8 cents, and 2.1 of output.
    monkeypatch.setenv("RAG_LAB_MAX_USD", "0.035")
    model = claude.ClaudeLLM("claude-opus-5-5")
    assert model.complete(Prompt.of("word" * 2_000), max_tokens=10).text
    with pytest.raises(spending.OverBudget):
        model.complete(Prompt.of("long" * 4_000), max_tokens=10)
    assert len(messages_server.asked()) == 1


def test_an_estimate_leaves_out_what_is_recorded(messages_server: Server) -> None:
    model = claude.ClaudeLLM(HAIKU)
    prompts = documents(1, 4)[0]
    before = model.estimate(prompts)
    assert (before.requests, before.cache_write_tokens > 0) == (4, True)
    assert before.cache_read_tokens == 3 * before.cache_write_tokens
    model.complete(prompts[0])
    after = model.estimate(prompts)
    assert after.requests == 3


# --- batches


def batch(prompts: list[Prompt], model: str = HAIKU) -> list[Any]:
    return batches.complete_batch(claude.ClaudeLLM(model), prompts, poll_seconds=0.01)


ANSWERS = [f"About question {n}." for n in range(6)]


def test_a_batch_costs_half_and_its_results_come_in_the_order_of_the_prompts(messages_server: Server) -> None:
    messages_server.polls = 3
    got = batch([*QUESTIONS, QUESTIONS[0]])
    assert texts_of(got) == [*ANSWERS, ANSWERS[0]]
    assert len(messages_server.asked(BATCHES)[0]["requests"]) == 6
    usage = got[0].usage
    assert usage.dollars == pytest.approx((usage.input_tokens * 0.10 + usage.output_tokens * 0.50) / 2e6)
    assert spending.BUDGET.spent == pytest.approx(6 * usage.dollars)
    assert claude.ClaudeLLM(HAIKU).complete(QUESTIONS[3]) == got[3]  # the same request, already paid for
    assert len(messages_server.billed) == 6


def test_a_batch_that_expires_in_part(messages_server: Server) -> None:
    fates = {"1": "expired", "2": "errored", "3": "canceled"}
    messages_server.outcome = lambda text: fates.get(text[-1], "succeeded")
    got = batch(QUESTIONS)
    reasons = [str(item) for item in got if isinstance(item, CallFailed)]
    assert [texts_of(got)[n] for n in (0, 4, 5)] == [ANSWERS[n] for n in (0, 4, 5)]
    assert [reason.split(": ", 1)[1] for reason in reasons] == [
        "expired.",
        "errored, invalid_request_error: bad item.",
        "canceled.",
    ]
    assert spending.BUDGET.left() == pytest.approx(1 - spending.BUDGET.spent)  # nothing stays set aside
    messages_server.outcome = lambda text: "succeeded"
    assert texts_of(batch(QUESTIONS)) == ANSWERS
    assert [len(body["requests"]) for body in messages_server.asked(BATCHES)] == [6, 3]
    assert len(messages_server.billed) == len(set(messages_server.billed)) == 6


@pytest.mark.parametrize(
    ("fault", "message", "spent", "submitted", "billed"),
    [
        (Fault("drop_stream", path="/results", method="GET", after=2), "was not read: .* Run it again", True, 1, 6),
        (Fault("end_stream", path="/results", method="GET", after=2), "was not read: .* Run it again", True, 1, 6),
        (Fault("status", 404, path="/results", method="GET"), "404", True, 2, 12),  # the server no longer has it
        (Fault("drop", path=BATCHES), "Connection", True, 1, 6),
        (Fault("lost_answer", path=BATCHES), "Connection", True, 2, 12),  # paid twice, which no client can prevent
        (Fault("status", 400, path=BATCHES), r"400.*scripted 400", False, 1, 6),
    ],
)
def test_a_batch_that_fails_is_an_error_and_the_next_run_completes_it(
    messages_server: Server, fault: Fault, message: str, spent: bool, submitted: int, billed: int
) -> None:
    messages_server.faults = [fault]
    with pytest.raises(CallFailed, match=message):
        batch(QUESTIONS)
    assert (spending.BUDGET.spent > 0) == spent  # in full unless the server refused it
    assert texts_of(batch(QUESTIONS)) == ANSWERS
    assert (len(messages_server.batches), len(messages_server.billed)) == (submitted, billed)


def test_the_whole_of_a_batch_must_fit_the_cap(messages_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # Opus 5.5: 1,280 output tokens at $20 a million, half price: 1.28 cents an item, 6 items.
    monkeypatch.setenv("RAG_LAB_MAX_USD", "0.07")
    with pytest.raises(spending.OverBudget, match=r"6 request\(s\) to claude-opus-5-5"):
        batch(QUESTIONS, "claude-opus-5-5")
    assert messages_server.asked(BATCHES) == []
    monkeypatch.setenv("RAG_LAB_MAX_USD", "0.08")
    assert texts_of(batch(QUESTIONS, "claude-opus-5-5")) == ANSWERS


# --- kill -9

SCRIPT = """
import sys
sys.path.insert(0, {project!r})
from tests.support.messages_server import QUESTIONS, documents
from rag_lab.llm import batches, claude
model = claude.ClaudeLLM("claude-haiku-5-5")
if {batch}:
    batches.complete_batch(model, QUESTIONS, poll_seconds=0.01)
else:
    model.complete_groups(documents(2, 4), at_once=1)
"""


def run_and_kill(server: Server, as_batch: bool) -> None:
    """Run SCRIPT in a process of its own until the server holds its request, then kill it as the kernel would."""
    script = SCRIPT.format(project=str(PROJECT), batch=as_batch)
    process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        assert server.held.wait(60), "the process never came so far"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    server.hold_from = 0
    server.release.set()


def test_killed_in_the_middle_of_a_run_only_what_is_missing_is_paid(messages_server: Server, tmp_path: Path) -> None:
    messages_server.hold_from = 4  # three answers arrive, the fourth request is held
    run_and_kill(messages_server, as_batch=False)
    got = claude.ClaudeLLM(HAIKU).complete_groups(documents(2, 4), at_once=1)
    assert [texts_of(outcomes) for outcomes in got] == [[f"About {c} of {d}." for c in range(4)] for d in range(2)]
    texts = [body["messages"][0]["content"][1]["text"] for body in messages_server.asked()]
    assert len(set(texts[:3])) == 3
    assert not set(texts[:3]) & set(texts[4:])  # nothing that had been answered is asked for again
    assert KEY not in written(tmp_path)


@pytest.mark.parametrize("where", ["before it was sent", "while it ran"])
def test_killed_around_a_batch_the_next_run_pays_for_it_once(
    messages_server: Server,
    tmp_path: Path,
    where: str,
) -> None:
    messages_server.hold_batch = where
    messages_server.polls = 3
    run_and_kill(messages_server, as_batch=True)
    messages_server.hold_batch = ""
    assert texts_of(batch(QUESTIONS)) == ANSWERS
    assert len(messages_server.batches) == 1
    assert len(messages_server.billed) == 6
    assert KEY not in written(tmp_path)
