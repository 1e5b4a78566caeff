"""TEST DOUBLE: a loopback server that speaks the Messages API, with faults that a test scripts.

No model is behind it: answers are made up from the request. The real ``anthropic`` client runs against it, so that
what is tested is the protocol, the retries and the bookkeeping. Import the fixture where it is used:
``from messages_server import KEY, Fault, messages_server  # noqa: F401``.
"""

import contextlib
import datetime
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

KEY = "sk-test-this-key-must-never-be-written-anywhere"
MESSAGES, COUNT, BATCHES = "/v1/messages", "/v1/messages/count_tokens", "/v1/messages/batches"
SOON = {"retry-after": "0.01"}  # the SDK takes 0 for "not said" and waits half a second


@dataclass
class Fault:
    """One request's fate. ``kind``:

    ``status`` answers with ``status``; ``drop`` closes the connection unanswered; ``malformed`` answers 200 with
    half a JSON object; ``cut_off`` stops at max_tokens; ``refusal`` refuses; ``drop_stream`` (abruptly) and
    ``end_stream`` (cleanly) end a stream, or a list of batch results, after ``after`` pieces; ``error_event``
    sends an error instead of the rest; ``lost_answer`` does the work and drops the answer.
    """

    kind: str
    status: int = 500
    path: str = MESSAGES
    method: str = "POST"
    holds: str = ""  # only requests whose body holds this text
    after: int = 1
    headers: dict[str, str] = field(default_factory=lambda: dict(SOON))


@dataclass
class Seen:
    method: str
    path: str
    body: Any
    headers: dict[str, str]


def texts(body: dict[str, Any]) -> list[tuple[str, bool]]:
    """Every text of a body, system first, and whether it is marked for the cache."""
    parts = [body.get("system") or [], *(message["content"] for message in body["messages"])]
    blocks = [b for part in parts for b in ([{"text": part}] if isinstance(part, str) else part)]
    return [(block.get("text", ""), "cache_control" in block) for block in blocks]


def tokens(text: str) -> int:
    """The server's own count: one token for every four characters."""
    return len(text) // 4


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
        self.held = threading.Event()
        self.release = threading.Event()
        self.batches: dict[str, dict[str, Any]] = {}
        self._cached: set[str] = set()
        self._lock = threading.Lock()
        server = self

        class Handler(_Handler):
            owner = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.release.set()
        self._http.shutdown()
        self._http.server_close()

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


class _Handler(BaseHTTPRequestHandler):
    owner: MessagesServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer waits for a delayed acknowledgement

    def log_message(self, *args: Any) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # clients that go away are part of the tests
            super().handle()

    def do_GET(self) -> None:
        self._handle("GET", "")

    def do_POST(self) -> None:
        self._handle("POST", self.rfile.read(int(self.headers.get("content-length", 0))).decode())

    def _handle(self, method: str, raw: str) -> None:
        server, path = self.owner, self.path.split("?")[0]
        body = json.loads(raw) if raw else None
        server.seen.append(Seen(method, path, body, dict(self.headers)))
        fault = server.fault_for(method, path, raw)
        kind = fault.kind if fault else ""
        if kind == "status":
            kinds = {429: "rate_limit_error", 529: "overloaded_error", 401: "authentication_error"}
            error = {"type": kinds.get(fault.status, "api_error"), "message": f"scripted {fault.status}"}
            return self._json({"type": "error", "error": error}, fault.status, fault.headers)
        if kind == "drop":
            return self._drop()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._route(method, path, body, fault, kind)

    def _route(self, method: str, path: str, body: Any, fault: Fault | None, kind: str) -> None:
        server = self.owner
        if path == COUNT:
            self._json({"input_tokens": sum(tokens(text) for text, _ in texts(body)) + 3})
        elif path == MESSAGES:
            if server.hold_from and len(server.asked()) >= server.hold_from:
                server.held.set()
                server.release.wait()
            message = server.message(body, kind)
            if kind == "lost_answer":
                self._drop()
            elif kind == "malformed":
                self._send(200, "application/json", json.dumps(message)[:40].encode())
            elif body.get("stream"):
                self._stream(message, fault)
            else:
                self._json(message)
        elif path == BATCHES and method == "POST":
            answer = server.submit(body["requests"])
            self._drop() if kind == "lost_answer" else self._json(answer)
        elif path == BATCHES:
            self._json({"data": [server.batch(n) for n in reversed(server.batches)], "has_more": False})
        elif (parts := path.removeprefix(BATCHES + "/").split("/"))[0] not in server.batches:
            error = {"type": "not_found_error", "message": "no such batch"}
            self._json({"type": "error", "error": error}, 404)
        elif parts[1:] == ["results"]:
            lines = [json.dumps(line) + "\n" for line in reversed(server.batches[parts[0]]["lines"])]
            self._pieces("application/x-jsonl", lines, fault)
        else:
            server.batches[parts[0]]["polls"] -= 1
            self._json(server.batch(parts[0]))

    def _stream(self, message: dict[str, Any], fault: Fault | None) -> None:
        text, usage = message["content"][0]["text"], message.get("usage")
        start = {**message, "content": [], "stop_reason": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        ]
        for at in range(0, len(text), 7):
            delta = {"type": "text_delta", "text": text[at : at + 7]}
            events.append({"type": "content_block_delta", "index": 0, "delta": delta})
        if fault and fault.kind == "error_event":
            del events[3:]
            events.append({"type": "error", "error": {"type": "overloaded_error", "message": "scripted"}})
        events.append({"type": "content_block_stop", "index": 0})
        last: dict[str, Any] = {"type": "message_delta", "delta": {"stop_reason": message.get("stop_reason")}}
        events.append(last if usage is None else {**last, "usage": {"output_tokens": usage["output_tokens"]}})
        events.append({"type": "message_stop"})
        pieces = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
        self._pieces("text/event-stream", pieces, fault)

    def _pieces(self, content_type: str, pieces: list[str], fault: Fault | None) -> None:
        kind = fault.kind if fault else ""
        if kind in ("drop_stream", "end_stream"):
            pieces = pieces[: fault.after]
        if kind == "end_stream":  # no length and no chunks: the client cannot tell the end from a cut
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write("".join(pieces).encode())
            return self._drop()
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            data = piece.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        if kind == "drop_stream":
            return self._drop()
        self.wfile.write(b"0\r\n\r\n")

    def _json(self, answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(status, "application/json", json.dumps(answer).encode(), headers)

    def _send(self, status: int, content_type: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": content_type, "content-length": len(data), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def _drop(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(2)


@pytest.fixture
def messages_server(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[MessagesServer]:
    """A running server with an empty ledger, and the environment of a live run against it (cache in tmp_path)."""
    from rag_lab import budget

    for name, value in {
        "ANTHROPIC_BASE_URL": (server := MessagesServer()).url,
        "ANTHROPIC_API_KEY": KEY,
        "RAG_LAB_MODE": "live",
        "RAG_LAB_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAG_LAB_MAX_USD", raising=False)
    monkeypatch.setattr(budget, "BUDGET", budget.Budget())
    yield server
    server.close()
