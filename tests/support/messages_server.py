"""TEST DOUBLE: a loopback server that speaks the Messages API, with faults that a test scripts.

No model is behind it: answers are made up from the request. The real ``anthropic`` client runs against it, so that
what is tested is the protocol, the retries and the bookkeeping. A test module gets the fixture ``messages_server`` by
``from tests.support.messages_server import running_server  # noqa: F401``.
"""

import contextlib
import datetime
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rag_lab.llm import spending
from rag_lab.llm.prompt import Block, CacheTTL, Completion, Prompt, Turn
from tests.support.messages_http import BATCHES, COUNT, MESSAGES, Fault, Handler, Seen, texts, tokens

__all__ = [
    "BATCHES",
    "COUNT",
    "KEY",
    "MESSAGES",
    "QUESTIONS",
    "Fault",
    "MessagesServer",
    "about",
    "documents",
    "texts_of",
    "written",
]

KEY = "sk-test-this-key-must-never-be-written-anywhere"
QUESTIONS = [Prompt.of(f"question {n}") for n in range(6)]


class MessagesServer:
    """What the server saw (``seen``), what it billed (``billed``: one entry a completion), and what it does."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self.billed: list[str] = []
        self.reply: Callable[[str], str] = lambda text: f"About {' '.join(text.split()[-3:])}."
        self.outcome: Callable[[str], str] = lambda text: "succeeded"
        self.polls = 1  # a batch ends after so many looks at it
        self.bare = False  # leave out what llama-server and the like leave out
        self.hold_from = 0  # completions from this number on (1 is the first) wait for `release`; 0: none waits
        self.hold_batch = ""  # hold the batch "before it was sent" or "while it ran"
        self.held = threading.Event()
        self.release = threading.Event()
        self.batches: dict[str, dict[str, Any]] = {}
        self.peak = 0  # completions under way at once, at most
        self._running = 0
        self._cached: set[str] = set()
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"owner": self}))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.release.set()
        self._http.shutdown()
        self._http.server_close()

    def hold(self) -> None:
        """Tell the test that a request is here, and wait."""
        self.held.set()
        self.release.wait()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with self._lock:
            self._running += 1
            self.peak = max(self.peak, self._running)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def asked(self, path: str = MESSAGES, method: str = "POST") -> list[Any]:
        """The bodies that were sent to ``path``."""
        return [seen.body for seen in self.seen if seen.path == path and seen.method == method]

    def fault_for(self, method: str, path: str, raw: str) -> Fault | None:
        with self._lock:
            for number, fault in enumerate(self.faults):
                if fault.method == method and path.endswith(fault.path) and fault.holds in raw:
                    return self.faults.pop(number)
        return None

    def message(self, body: dict[str, Any], fault: str = "") -> dict[str, Any]:
        """The answer to one request, billed."""
        pieces = texts(body)
        with self._lock:
            self.billed.append(json.dumps(body["messages"], sort_keys=True))
            marked = max((n for n, (_, mark) in enumerate(pieces, 1) if mark), default=0)
            prefix = "\n".join(text for text, _ in pieces[:marked])
            known = prefix in self._cached
            if marked:
                self._cached.add(prefix)
        text = self.reply(pieces[-1][0])
        stop = {"cut_off": "max_tokens", "refusal": "refusal"}.get(fault, "end_turn")
        if fault == "cut_off":
            text = text[: len(text) // 2]
        message = {"role": "assistant", "type": "message", "content": [{"type": "text", "text": text}]}
        if self.bare:
            return message
        hour = any("1h" in json.dumps(part) for part in (body.get("system"), body["messages"]))
        write, read = (0, tokens(prefix)) if known else (tokens(prefix), 0)
        usage = {
            "input_tokens": sum(tokens(text) for text, _ in pieces[marked:]),
            "cache_creation_input_tokens": write,
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": 0 if hour else write,
                "ephemeral_1h_input_tokens": write if hour else 0,
            },
            "output_tokens": tokens(text),
        }
        return {**message, "id": "msg_1", "model": body["model"], "stop_reason": stop, "usage": usage}

    def submit(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        number = f"msgbatch_{len(self.batches) + 1}"
        self.batches[number] = {
            "created": datetime.datetime.now(datetime.UTC),
            "polls": self.polls,
            "lines": [self._result(request) for request in requests],
        }
        return self.batch(number)

    def _result(self, request: dict[str, Any]) -> dict[str, Any]:
        kind = self.outcome(texts(request["params"])[-1][0])
        result: dict[str, Any] = {"type": kind}
        if kind == "succeeded":
            result["message"] = self.message(request["params"])
        if kind == "errored":
            result["error"] = {"type": "error", "error": {"type": "invalid_request_error", "message": "bad item"}}
        return {"custom_id": request["custom_id"], "result": result}

    def batch(self, number: str) -> dict[str, Any]:
        batch = self.batches[number]
        ended = batch["polls"] <= 0
        kinds = [line["result"]["type"] for line in batch["lines"]]
        counts = {kind: kinds.count(kind) if ended else 0 for kind in ("succeeded", "errored", "canceled", "expired")}
        return {
            "id": number,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {"processing": 0 if ended else len(kinds), **counts},
            "created_at": batch["created"].isoformat(),
            "expires_at": (batch["created"] + datetime.timedelta(days=1)).isoformat(),
            "results_url": f"{self.url}{BATCHES}/{number}/results" if ended else None,
        }


def about(chunk: str, document: str = "", cache: CacheTTL = "5m") -> Prompt:
    """A prompt for a context: the document with a cache mark, and the chunk."""
    blocks = (Block(document, cache), Block(chunk)) if document else (Block(chunk),)
    return Prompt((Turn("user", blocks),))


def documents(count: int, chunks: int) -> list[list[Prompt]]:
    """A group of prompts per document: ``about`` each of its chunks."""
    return [[about(f"chunk {c} of {d}", f"document {d} " * 300) for c in range(chunks)] for d in range(count)]


def texts_of(outcomes: Sequence[Any]) -> list[str]:
    """The texts of completions, and the reasons of failures."""
    return [item.text if isinstance(item, Completion) else f"failed: {item}" for item in outcomes]


def written(folder: Path) -> str:
    """Everything in the files of a folder."""
    return "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


@pytest.fixture(name="messages_server")
def running_server(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[MessagesServer]:
    """A running server with an empty ledger, and the environment of a live run against it (cache in tmp_path)."""
    for name, value in {
        "ANTHROPIC_BASE_URL": (server := MessagesServer()).url,
        "ANTHROPIC_API_KEY": KEY,
        "RAG_LAB_MODE": "live",
        "RAG_LAB_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAG_LAB_MAX_USD", raising=False)
    monkeypatch.setattr(spending, "BUDGET", spending.Budget())
    yield server
    server.close()
