"""Published data sets: their pinned addresses, and downloads that are checked, resumed and put in place whole."""

import hashlib
import os
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath

from rag_lab import settings

TIMEOUT = 30  # seconds without a byte


@dataclass(frozen=True)
class Download:
    """What an address serves, its digest ("algorithm:hexadecimal"), and the files it gives in the data folder.

    One file, or the members that a zip archive is unpacked to: ``beir/scifact/…`` is the archive's ``scifact/…``.
    """

    address: str
    digest: str
    files: tuple[str, ...]

    @property
    def is_archive(self) -> bool:
        """Whether the address serves a zip archive; its files have no digest of their own."""
        return self.address.endswith(".zip")


_BEIR = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
_COOKBOOK = (
    "https://raw.githubusercontent.com/anthropics/anthropic-cookbook/4b36a1e1f64361397f4cbe4fbc7cdace338f16f8"
    "/skills/contextual-embeddings/data"
)
_LOST_IN_THE_MIDDLE = (
    "https://raw.githubusercontent.com/nelson-liu/lost-in-the-middle/29b8a6d042ce29abccee3db1a73171a107d7e6af"
)


def _beir(name: str, md5: str) -> Download:
    files = ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")
    return Download(f"{_BEIR}/{name}.zip", f"md5:{md5}", tuple(f"beir/{name}/{file}" for file in files))


DOWNLOADS: dict[str, tuple[Download, ...]] = {
    # The digests of the archives are those of BEIR's own table of data sets.
    "scifact": (_beir("scifact", "5f7d1de60b170fc8027bb7898e2efca1"),),
    "nfcorpus": (_beir("nfcorpus", "a89dba18a62ef92f7d323ec890a0d38d"),),
    "codebases": (
        Download(
            f"{_COOKBOOK}/codebase_chunks.json",
            "sha256:70dbed1cb8a90a107b23742b1537051346860f841ec8b03734c1298fa4a34d46",
            ("anthropic-cookbook/codebase_chunks.json",),
        ),
        Download(
            f"{_COOKBOOK}/evaluation_set.jsonl",
            "sha256:7186e2bed15547a2ed178134876b29e4abb206bf0394facbe61d58bf835ee073",
            ("anthropic-cookbook/evaluation_set.jsonl",),
        ),
    ),
    "nq-oracle": (
        Download(
            f"{_LOST_IN_THE_MIDDLE}/qa_data/nq-open-oracle.jsonl.gz",
            "sha256:6a7f72b846f663a133ef952244e5a4e43f06bcf190afe34e8fbe687ce0d1653e",
            ("lost-in-the-middle/nq-open-oracle.jsonl.gz",),
        ),
    ),
    "kv-pairs": (
        Download(
            f"{_LOST_IN_THE_MIDDLE}/kv_retrieval_data/kv-retrieval-75_keys.jsonl.gz",
            "sha256:eb6d61fc3473349f2b86df76757c6ab659cc929d907d24caf1c69928e03f6203",
            ("lost-in-the-middle/kv-retrieval-75_keys.jsonl.gz",),
        ),
    ),
}


def fetch(name: str) -> list[Path]:
    """The files of a published set (a name in ``DOWNLOADS``), downloaded to the cache where no data folder has them.

    An interrupted download goes on where it stopped. FileNotFoundError naming file, address and folder where the
    address cannot be reached; ValueError for an unknown name or another checksum.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"no published data set {name!r}; there are: {', '.join(DOWNLOADS)}.")
    return [path for source in DOWNLOADS[name] for path in _find(source) or _fetch(source)]


def files_of(name: str) -> list[Path]:
    """The files of a published set where a data folder has them; FileNotFoundError saying how to get them, else."""
    paths: list[Path] = []
    for source in DOWNLOADS[name]:
        found = _find(source)
        if not found:
            folders = " or ".join(str(folder) for folder in settings.published_data_folders())
            raise FileNotFoundError(
                f"{source.files[0]} is not in {folders}: run `python -m rag_lab fetch {name}`, which downloads it "
                f"from {source.address}, or set RAG_LAB_DATA to a folder that has it."
            )
        paths += found
    return paths


def placed(name: str) -> Path | None:
    """A file of Lost in the Middle's repository that was put by hand into a data folder's ``lost-in-the-middle``.

    Or below it, as in a clone. None where there is none. Their digests were never read, so nothing downloads them.
    """
    folders = [folder / "lost-in-the-middle" for folder in settings.published_data_folders()]
    return next((path for folder in folders for path in sorted(folder.rglob(name))), None)


def matches(path: Path, digest: str) -> bool:
    """Whether the file's digest is ``digest``, given as "sha256:…" or "md5:…" in hexadecimal."""
    algorithm, expected = digest.split(":")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest() == expected


def download(address: str, target: Path, digest: str) -> None:
    """Download ``address`` to ``target``, which appears only once its digest is right.

    What has arrived waits in ``target`` + ".part", and the next call asks the server for the rest. A finished file
    with another digest is deleted. Raises ValueError for that digest, URLError where the address cannot be reached
    or answers with an error, ConnectionError or TimeoutError where the transfer stops.
    """
    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    if not (part.exists() and matches(part, digest)):
        _receive(address, part)
        if not matches(part, digest):
            part.unlink()
            raise ValueError(f"{address} does not have the digest {digest}: it was changed, or damaged on the way.")
    os.replace(part, target)


def _receive(address: str, part: Path) -> None:
    from tqdm.auto import tqdm

    held = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={held}-"} if held else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if not (held and error.code == 416):  # 416: nothing lies beyond what is held, so what is held is wrong
            raise
        part.unlink()
        return _receive(address, part)
    with response:
        if response.status != 206:  # the server sends the whole file, asked for or not
            held = 0
        length = response.headers["Content-Length"]
        size = held + int(length) if length else None
        progress = tqdm(total=size, initial=held, unit="B", unit_scale=True, desc=part.stem)
        with open(part, "ab" if held else "wb") as file, progress:
            while block := response.read(1 << 16):
                held += file.write(block)
                progress.update(len(block))
    if size is not None and held < size:
        raise ConnectionError(f"the transfer stopped after {held:,} of {size:,} bytes; fetch again for the rest")


def _fetch(source: Download) -> list[Path]:
    folder = settings.published_data_folders()[-1]
    top = PurePosixPath(source.files[0]).parts[0]
    target = folder / top / source.address.rsplit("/", 1)[-1]
    try:
        download(source.address, target, source.digest)
    except (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError) as error:
        raise FileNotFoundError(
            f"{source.files[0]} is in no data folder and {source.address} did not give it ({error}); fetch it where "
            f"the network allows, or put it into {folder} by hand."
        ) from error
    paths = [folder / file for file in source.files]
    if source.is_archive:
        with zipfile.ZipFile(target) as archive:
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f"{path.name}.part")
                part.write_bytes(archive.read(path.relative_to(folder / top).as_posix()))
                os.replace(part, path)
        target.unlink()
    return paths


def _find(source: Download) -> list[Path]:
    """The files in the first data folder that has them all; empty where none has."""
    for folder in settings.published_data_folders():
        paths = [folder / file for file in source.files]
        if all(path.is_file() for path in paths):
            if not source.is_archive and not matches(paths[0], source.digest):
                raise ValueError(
                    f"{paths[0]} does not have the digest {source.digest}; delete it and fetch it again."
                )
            return paths
    return []
