"""Downloads against a loopback server that can resume, refuse, stop short and lie."""

import hashlib
import io
import threading
import urllib.error
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rag_lab import datasets
from rag_lab.datasets import DOWNLOADS, Download, download, fetch, files_of

BODY = bytes(range(256)) * 1000


class Server(ThreadingHTTPServer):
    """Serves ``body`` at every path but /absent; ``ranges`` off ignores Range; ``stop_after`` cuts answers short."""

    body = BODY
    ranges = True
    stop_after: int | None = None

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.server.asked.append(wanted)
        body, status = self.server.body, 200
        if self.path == "/absent":
            return self.send_error(404)
        if wanted and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                return self.send_error(416)
            body, status = body[start:], 206
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.stop_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder inside an empty cache, with no RAG_LAB_DATA."""
    monkeypatch.setenv("RAG_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RAG_LAB_DATA", raising=False)
    return tmp_path / "cache" / "data"


def sha256(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def test_a_download_arrives_whole(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.bin"
    download(server.address, target, sha256(BODY))
    assert target.read_bytes() == BODY
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    assert server.asked == [None]


def test_a_transfer_that_stops_is_resumed_where_it_stopped(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    server.stop_after = 100_000
    with pytest.raises(ConnectionError, match=r"100,000 of 256,000 bytes"):
        download(server.address, target, sha256(BODY))
    assert not target.exists()
    server.stop_after = None
    download(server.address, target, sha256(BODY))
    assert target.read_bytes() == BODY
    assert server.asked == [None, "bytes=100000-"]


def test_a_server_that_ignores_ranges_sends_it_all_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(BODY[:1000])
    server.ranges = False
    download(server.address, tmp_path / "file.bin", sha256(BODY))
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_a_finished_part_needs_no_server(tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(BODY)
    download("http://127.0.0.1:9/unreachable", tmp_path / "file.bin", sha256(BODY))
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_a_part_longer_than_the_file_is_begun_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"stale" * 100_000)
    download(server.address, tmp_path / "file.bin", sha256(BODY))
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_a_wrong_digest_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not have the digest"):
        download(server.address, tmp_path / "file.bin", sha256(b"other"))
    assert list(tmp_path.iterdir()) == []


def test_an_error_page_is_not_taken_for_the_file(server: Server, tmp_path: Path) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        download(server.address.replace("file.bin", "absent"), tmp_path / "file.bin", sha256(BODY))
    assert list(tmp_path.iterdir()) == []


def test_fetch_downloads_once_into_the_cache(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DOWNLOADS, "set", (Download(server.address, sha256(BODY), ("set/file.bin",)),))
    with pytest.raises(FileNotFoundError, match=r"set/file\.bin"):
        files_of("set")
    assert server.asked == []  # reading never downloads
    assert fetch("set") == [cache / "set" / "file.bin"]
    assert fetch("set") == files_of("set") == [cache / "set" / "file.bin"]
    assert len(server.asked) == 1


def test_fetch_unpacks_an_archive_and_removes_it(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mini/corpus.jsonl", "{}")
        archive.writestr("mini/qrels/test.tsv", "query-id\n")
        archive.writestr("mini/qrels/train.tsv", "not wanted")
    server.body = packed.getvalue()
    source = Download(
        server.address.replace("file.bin", "mini.zip"),
        f"md5:{hashlib.md5(server.body).hexdigest()}",
        ("beir/mini/corpus.jsonl", "beir/mini/qrels/test.tsv"),
    )
    monkeypatch.setitem(DOWNLOADS, "mini", (source,))
    corpus, labels = fetch("mini")
    assert (corpus.read_text(encoding="utf-8"), labels.read_text(encoding="utf-8")) == ("{}", "query-id\n")
    assert {path for path in cache.rglob("*") if path.is_file()} == {corpus, labels}


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/file.bin", "{server}/absent"])
def test_fetch_without_a_source_says_file_address_and_folder(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    address = address.format(server=f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setitem(DOWNLOADS, "set", (Download(address, sha256(BODY), ("set/file.bin",)),))
    with pytest.raises(FileNotFoundError) as error:
        fetch("set")
    assert all(part in str(error.value) for part in ("set/file.bin", address, str(cache)))
    assert "\n" not in str(error.value)


def test_fetch_of_a_transfer_that_stops_keeps_what_came(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DOWNLOADS, "set", (Download(server.address, sha256(BODY), ("set/file.bin",)),))
    server.stop_after = 500
    with pytest.raises(FileNotFoundError, match="stopped after 500"):
        fetch("set")
    server.stop_after = None
    assert fetch("set")[0].read_bytes() == BODY


def test_the_chosen_folder_goes_before_the_cache_and_is_checked(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DOWNLOADS, "set", (Download("http://127.0.0.1:9/", sha256(BODY), ("file.bin",)),))
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "chosen"))
    for folder, body in ((cache, BODY), (tmp_path / "chosen", BODY)):
        folder.mkdir(parents=True)
        (folder / "file.bin").write_bytes(body)
    assert files_of("set") == [tmp_path / "chosen" / "file.bin"]
    (tmp_path / "chosen" / "file.bin").write_bytes(b"changed")
    for look in (files_of, fetch):
        with pytest.raises(ValueError, match="does not have the digest"):
            look("set")


def test_an_unknown_set_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'sciFact'.*scifact, nfcorpus, codebases, nq-oracle, kv-pairs"):
        fetch("sciFact")


def test_every_address_is_pinned() -> None:
    for source in (source for sources in datasets.DOWNLOADS.values() for source in sources):
        algorithm, digest = source.digest.split(":")
        assert len(bytes.fromhex(digest)) == {"sha256": 32, "md5": 16}[algorithm]
        assert source.address.startswith("https://")
        assert source.is_archive or len(source.files) == 1
