"""The spending cap of a process, and the estimate beside the actual cost of paid work."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from rag_lab.llm.pricing import Estimate, usd


class OverBudget(RuntimeError):  # noqa: N818
    """A call was not sent, because it could have passed the cap."""


def max_usd() -> float:
    """``RAG_LAB_MAX_USD``: the most that this process may spend, in US dollars (default 1.00).

    Raises ValueError if it is not a number of at least 0.
    """
    text = os.environ.get("RAG_LAB_MAX_USD", "1.00")
    with contextlib.suppress(ValueError):
        if (value := float(text)) >= 0:
            return value
    raise ValueError(f"RAG_LAB_MAX_USD is {text!r}; set it to a number of US dollars, 0 or more.")


class Budget:
    """A ledger for all threads: the worst case of a call is reserved before it, and the actual cost settled after it.

    ``spent`` is the actual cost so far in US dollars. The cap is per process: worker processes have their own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._reserved = 0.0
        self.spent = 0.0
        self.open_estimates = 0  # blocks of ``paid_work`` in progress

    def left(self) -> float:
        """US dollars neither spent nor reserved."""
        return max_usd() - self.spent - self._reserved

    def reserve(self, amount: float, what: str) -> None:
        """Reserve ``amount`` dollars for ``what``. Raises OverBudget, and reserves nothing, if less is left."""
        with self.lock:
            left = self.left()
            if amount > left + 1e-12:
                raise OverBudget(
                    f"Not sent: {what} could cost up to {usd(amount)}, and {usd(max(left, 0.0))} of the "
                    f"${max_usd():.2f} cap is left. Raise RAG_LAB_MAX_USD or ask for less."
                )
            self._reserved += amount

    def settle(self, reserved: float, actual: float) -> None:
        """Replace a reserved amount by what the call cost."""
        with self.lock:
            self._reserved -= reserved
            self.spent += actual


BUDGET = Budget()


@contextlib.contextmanager
def paid_work(estimate: Estimate) -> Iterator[None]:
    """Print ``estimate`` on standard error before the block and the actual cost after it, also if it fails.

    Nothing is printed if the estimate is $0, or inside another such block.
    """
    budget, before = BUDGET, BUDGET.spent
    silent = budget.open_estimates > 0 or not estimate.dollars
    if not silent:
        over = "; MORE THAN IS LEFT, the run will stop at the cap" if estimate.dollars > budget.left() else ""
        print(f"Estimate: {estimate}; ${budget.left():.2f} of the cap left{over}", file=sys.stderr)
    with budget.lock:
        budget.open_estimates += 1
    try:
        yield
    finally:
        with budget.lock:
            budget.open_estimates -= 1
        if not silent:
            actual, left = usd(budget.spent - before), f"${budget.left():.2f} of the cap left"
            print(f"Actual: {actual} (estimate {usd(estimate.dollars)}, {left})", file=sys.stderr)
