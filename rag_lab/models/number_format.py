"""Which number format models compute in fastest on this processor: measured once, kept per processor and torch.

A processor's flags do not tell. Of two processors with AVX512-BF16, one encodes text in bfloat16 in half the time of
float32 and the other takes 1.6 times as long; packed weights halve float32 prefill on the one and gain nothing on the
other. So the matrix products that count are timed in each way, and the quickest way is taken.
"""

import functools
import json
import math
import platform
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rag_lab import settings
from rag_lab.storage import write_atomic

Job = Literal["encode", "prefill", "decode"]
Model = Literal["encoder", "language model"]

# Rows, inputs and outputs of the linear layer that each job spends most of its time in: MiniLM's over a batch of
# 2,048 tokens, SmolLM2's over a prompt of 900 tokens, and over one written token.
SHAPES: Mapping[Job, tuple[int, int, int]] = {
    "encode": (2048, 384, 1536),
    "prefill": (900, 576, 1536),
    "decode": (1, 576, 1536),
}
# Tokens of each job in one use of such a model. For a language model that is one question of the notebooks: a prompt
# with ten passages is read, a short answer is written. Where prefill and decode disagree on the format, this decides.
TOKENS: Mapping[Model, Mapping[Job, int]] = {
    "encoder": {"encode": 1},
    "language model": {"prefill": 1500, "decode": 40},
}
FORMATS = (("float32", False), ("float32", True), ("bfloat16", False), ("bfloat16", True))
LAYERS = 16  # for one row: different weights, so that they are read from memory and not from the processor's cache
REPEATS = 3  # the quickest counts
VERSION = 1  # of the measurement; a file made by another is measured again

# GFLOP/s by job, then by format: "float32", "float32 packed", "bfloat16", "bfloat16 packed".
Timings = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class NumberFormat:
    """How a model computes: ``dtype`` is "float32" or "bfloat16", ``packed`` weights are laid out for this CPU."""

    dtype: str
    packed: bool
    why: str

    def __str__(self) -> str:
        return f"{self.dtype}{', packed' if self.packed else ''} ({self.why})"


def format_name(dtype: str, packed: bool) -> str:
    """The name of a way to compute in the timing table."""
    return f"{dtype} packed" if packed else dtype


def choose_format(timings: Timings, model: Model) -> NumberFormat:
    """The way that takes the fewest seconds for the ``TOKENS`` of such a model.

    ``timings``: GFLOP/s as ``measure`` returns them. A way that one of the jobs lacks is not considered.
    """

    def seconds(name: str) -> float:
        return sum(tokens / timings[job][name] for job, tokens in TOKENS[model].items())

    ways = [way for way in FORMATS if all(format_name(*way) in timings[job] for job in TOKENS[model])]
    dtype, packed = min(ways, key=lambda way: seconds(format_name(*way)))
    others = [seconds(format_name(*way)) for way in ways if way[0] != dtype]
    if not others:
        return NumberFormat(dtype, packed, "the only format that this CPU computes")
    ratio = min(others) / seconds(format_name(dtype, packed))
    other = "bfloat16" if dtype == "float32" else "float32"
    return NumberFormat(dtype, packed, f"measured: {other} takes {ratio:.2f} times as long here")


def number_format(model: Model, device: str = "cpu", dtype: str | None = None) -> NumberFormat:
    """The format for such a model on ``device``.

    ``dtype``, else ``RAG_LAB_DTYPE``, overrides what was measured. CUDA takes bfloat16 if the card has it in
    hardware, MPS float32. Raises ValueError if the dtype is neither float32 nor bfloat16.
    """
    if dtype not in (None, "float32", "bfloat16"):
        raise ValueError(f"dtype is {dtype!r}; it is 'float32', 'bfloat16' or None for the quicker one here.")
    chosen, why = dtype or settings.dtype(), "requested" if dtype else "RAG_LAB_DTYPE"
    if device != "cpu":
        return NumberFormat(chosen or _accelerator_dtype(device), False, why if chosen else device)
    timings = measured()
    if not chosen:
        return choose_format(timings, model)
    only = {job: {k: v for k, v in row.items() if k.startswith(chosen)} for job, row in timings.items()}
    packed = choose_format(only, model).packed if all(only.values()) else False
    return NumberFormat(chosen, packed, why)


@functools.cache
def measured() -> Timings:
    """This processor's timings: from the cache folder, or measured now (about a second) and kept there."""
    path = settings.cache_folder() / "number_format.json"
    kept = _read(path)
    key = machine()
    if key not in kept:
        kept[key] = measure()
        try:
            write_atomic(path, json.dumps(kept, indent=1))
        except OSError as error:
            warnings.warn(f"{path}: {error}. This machine is measured again at the next start.", stacklevel=2)
    return kept[key]


def _read(path: Path) -> dict[str, Any]:
    """What the cache file holds; nothing if it is missing, broken or made by another version."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {key: row for key, row in kept.items() if key.startswith(f"{VERSION}: ") and _is_whole(row)}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _is_whole(row: Any) -> bool:
    ways = {format_name(*way) for way in FORMATS}
    return set(row) == set(SHAPES) and all(
        "float32" in speeds and set(speeds) <= ways and min(speeds.values()) > 0 for speeds in row.values()
    )


def machine() -> str:
    """What the measurement depends on: its version, the processor, its vector instructions, torch and its threads."""
    import torch

    return (
        f"{VERSION}: {processor()}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} thread(s)"
    )


def processor() -> str:
    """The processor's name, with family and model where the system tells them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        found = {name.strip(): value.strip() for name, value in fields.items()}
        return f"{found['model name']} (family {found['cpu family']}, model {found['model']})"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def measure() -> dict[str, dict[str, float]]:
    """GFLOP/s of each job in each way that this CPU can compute, the best of a few repeats."""
    import torch

    from rag_lab.models.cpu_kernels import can_pack

    found: dict[str, dict[str, float]] = {job: {} for job in SHAPES}
    with torch.inference_mode():
        for job, (rows, inputs, outputs) in SHAPES.items():
            for dtype, packed in FORMATS:
                if (dtype == "bfloat16" and not _computes_bfloat16()) or (packed and not can_pack()):
                    continue
                seconds = _layer_seconds(rows, inputs, outputs, getattr(torch, dtype), packed)
                found[job][format_name(dtype, packed)] = float(f"{2e-9 * rows * inputs * outputs / seconds:.3g}")
    return found


def _layer_seconds(rows: int, inputs: int, outputs: int, dtype: Any, packed: bool) -> float:
    """Seconds of one linear layer, the best of ``REPEATS`` after a first that warms up."""
    import torch

    from rag_lab.models.cpu_kernels import pack_linear_layers

    layers = torch.nn.Sequential(
        *(torch.nn.Linear(inputs, outputs, dtype=dtype) for _ in range(LAYERS if rows == 1 else 1))
    )
    if packed:
        pack_linear_layers(layers)
    x = torch.randn(rows, inputs, dtype=dtype)
    best = math.inf
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        for layer in layers:
            layer(x)
        best = min(best, time.perf_counter() - started)
    return best / len(layers)


def _computes_bfloat16() -> bool:
    """Whether oneDNN computes bfloat16 on this CPU; without it torch emulates it, many times slower."""
    import torch

    return bool(torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _accelerator_dtype(device: str) -> str:
    import torch

    hardware = device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if hardware else "float32"
