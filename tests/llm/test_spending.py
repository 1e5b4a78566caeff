"""The spending cap, and the estimate beside the actual cost."""

import threading

import pytest

from rag_lab.llm import pricing, spending

# Anthropic 2024: a million document tokens in documents of 8,000, chunks of 800.
MILLION = [8_000] * 125


def test_the_cap_refuses_what_would_pass_it_and_counts_what_was_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_LAB_MAX_USD", raising=False)
    ledger = spending.Budget()
    ledger.reserve(0.7, "a call")
    with pytest.raises(spending.OverBudget, match=r"a second call could cost .*\$0\.4000.*\$0\.3000 of the \$1\.00"):
        ledger.reserve(0.4, "a second call")
    ledger.settle(0.7, 0.1)
    ledger.reserve(0.9, "up to the cap")
    assert ledger.left() == pytest.approx(0)
    monkeypatch.setenv("RAG_LAB_MAX_USD", "2.5")
    assert ledger.left() == pytest.approx(1.5)
    for wrong in ("lots", "-1", "nan"):
        monkeypatch.setenv("RAG_LAB_MAX_USD", wrong)
        with pytest.raises(ValueError, match="RAG_LAB_MAX_USD is"):
            ledger.left()


def test_threads_cannot_pass_the_cap_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_MAX_USD", "1")
    ledger = spending.Budget()
    refused = []

    def spend() -> None:
        for _ in range(20):
            try:
                ledger.reserve(0.01, "a call")
            except spending.OverBudget:
                refused.append(1)
            else:
                ledger.settle(0.01, 0.01)

    threads = [threading.Thread(target=spend) for _ in range(8)]  # 160 calls of one cent each
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spent == pytest.approx(1.00)
    assert len(refused) == 60


def test_the_estimate_is_printed_before_and_beside_the_actual_cost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RAG_LAB_MAX_USD", raising=False)
    monkeypatch.setattr(spending, "BUDGET", spending.Budget())
    work = pricing.estimate("claude-3-haiku", pricing.context_calls(MILLION, prewarm=True))
    with spending.paid_work(work):
        before = capsys.readouterr().err
        with spending.paid_work(work):
            spending.BUDGET.settle(0, 0.25)
    assert "1,375 request(s)" in before
    assert "$1.0219" in before
    assert "MORE THAN IS LEFT" in before
    assert capsys.readouterr().err.splitlines() == ["Actual: $0.2500 (estimate $1.0219, $0.75 of the cap left)"]
