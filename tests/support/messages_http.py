"""TEST DOUBLE: how ``messages_server`` answers over HTTP, and the faults that it can be told to have."""

import contextlib
import json
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

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


class Handler(BaseHTTPRequestHandler):
    owner: Any  # the MessagesServer
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
            message = f"scripted {fault.status} for {self.headers.get('authorization')}"
            error = {"type": "api_error", "message": message}
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
                server.hold()
            with server.running():
                time.sleep(0.005)  # so that calls made at once are seen at once
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
            if server.hold_batch == "before it was sent":
                server.hold()
                return self._drop()
            answer = server.submit(body["requests"])
            self._drop() if kind == "lost_answer" else self._json(answer)
        elif (parts := path.removeprefix(BATCHES + "/").split("/"))[0] not in server.batches:
            error = {"type": "not_found_error", "message": "no such batch"}
            self._json({"type": "error", "error": error}, 404)
        elif parts[1:] == ["results"]:
            lines = [json.dumps(line) + "\n" for line in reversed(server.batches[parts[0]]["lines"])]
            self._pieces("application/x-jsonl", lines, fault)
        else:
            if server.hold_batch == "while it ran":
                server.hold()
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
        self.send_response(200)
        self.send_header("content-type", content_type)
        if kind == "end_stream":  # no length and no chunks: the client cannot tell the end from a cut
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write("".join(pieces).encode())
            return self._drop()
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
        for name, value in {
            "content-type": content_type,
            "content-length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _drop(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(2)
