"""Sweep files: YAML to a list of configurations, every one of them checked before anything runs."""

import functools
import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_lab import datasets, models, sweep_keys
from rag_lab.chunking import chunk_chars
from rag_lab.datasets import Corpus, Question
from rag_lab.documents import Document, load_folder
from rag_lab.language_models import is_paid
from rag_lab.prompting import Message
from rag_lab.sweep_keys import KEYS, Configuration, context_unread
from rag_lab.sweep_yaml import Entry, SweepFile, read_top
from rag_lab.templates import Template, load_template

QUESTIONS = ("path", "sample", "seed")
MOST = 10_000  # configurations: each is held in memory and hashed with all documents; a typo can ask for millions


@dataclass(frozen=True)
class Sweep:
    """Configurations (flat, every key of ``KEYS`` filled in), and all that they are run on.

    ``swept`` names the keys with more than one value; ``templates`` and ``histories`` hold what the files that the
    configurations name were when the sweep was loaded.
    """

    name: str
    mode: str
    configurations: tuple[Configuration, ...]
    swept: tuple[str, ...]
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    templates: Mapping[str, Template]
    histories: Mapping[str, tuple[Message, ...]]


def load_sweep(path: str | Path) -> Sweep:
    """The sweep in a YAML file; see ``parse_sweep``. FileNotFoundError where there is no such file."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"There is no sweep file {str(path)!r}; examples are in data/sweeps.")
    file, data = SweepFile(path.name, path.parent), path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        file.refuse(data.count(b"\n", 0, error.start) + 1, "this is not UTF-8; save the file as UTF-8.")
    return _parsed(file, text, path.stem)


def parse_sweep(text: str, name: str = "sweep", folder: Path | None = None) -> Sweep:
    """The sweep that YAML text describes.

    ``sweep_mode`` is ``grid`` (all values against all) or ``zip`` (the first values together, then the second ones).
    ``fixed`` and ``sweep`` hold the keys of ``sweep_keys.KEYS``, dotted or as maps in maps, in ``sweep`` each with a
    list. ``corpus`` is a built-in one (default: handbook) or a list of them, searched together; or ``documents`` is a
    folder and ``questions`` a file of JSON lines. ``questions: {path, sample, seed}`` takes ``sample`` of them, in
    the share of those that have no answer. Paths are looked for as they are, then in ``folder``, then in ``data``.
    A grid has at most ``MOST`` configurations, and a context must be read in one of them: ``context_unread``.

    Raises ValueError, or FileNotFoundError for a file, folder or model that is not there. The sentence names the
    line, and for an unknown key the nearest that there is.
    """
    return _parsed(SweepFile(name if folder is None else f"{name}.yaml", folder), text, name)


def _parsed(file: SweepFile, text: str, name: str) -> Sweep:
    top = read_top(file, text)
    mode = top.get("sweep_mode", Entry("grid", 1))
    if mode.value not in ("grid", "zip"):
        file.refuse(mode.line, f"sweep_mode is {mode.value!r}; it is grid or zip.")
    fixed = {key: Entry(_checked(file, key, e), e.line) for key, e in _settings(file, top, "fixed").items()}
    lists: dict[str, Entry] = {}
    for key, entry in _settings(file, top, "sweep").items():
        if key in fixed:
            file.refuse(entry.line, f"{key} is fixed in line {fixed[key].line} and swept here: choose one.")
        if not isinstance(entry.value, list) or not entry.value:
            file.refuse(entry.line, f"{key} is {entry.value!r}; in sweep, give a list of values: [{entry.value}].")
        lists[key] = Entry([_checked(file, key, Entry(v, entry.line)) for v in entry.value], entry.line)
    lines = {key: entry.line for key, entry in (fixed | lists).items()}
    configurations = [
        _completed(file, {key: entry.value for key, entry in fixed.items()} | values, lines)
        for values in _combined(file, mode, lists)
    ]
    runs: dict[str, int] = {}
    for number, configuration in enumerate(configurations, 1):
        if (first := runs.setdefault(repr(configuration), number)) != number:
            file.refuse(max(lines.values(), default=1), f"runs {first} and {number} are the same: leave one out.")
    contextual = [configuration for configuration in configurations if configuration["context.method"] != "none"]
    if contextual and all(map(context_unread, contextual)):
        file.refuse(
            lines["context.method"],
            f"context.method is {contextual[0]['context.method']!r}, which no run reads: embedding.late embeds the "
            "document itself, and there is neither BM25 nor a reranker. Leave context.method out, or set "
            "embedding.late: false or retrieval.method: hybrid.",
        )
    corpus = _corpus(file, top)
    return Sweep(
        name,
        mode.value,
        tuple(configurations),
        tuple(key for key in lists if len({repr(c[key]) for c in configurations}) > 1),
        corpus.documents,
        corpus.questions,
        _templates(file, configurations, lines),
        _histories(file, configurations, lines),
    )


def _settings(file: SweepFile, top: Mapping[str, Entry], part: str) -> dict[str, Entry]:
    given = top.get(part, Entry({}, 1))
    if not isinstance(given.value, dict):
        file.refuse(given.line, f"{part} is {given.value!r}; give keys with their values, one a line.")
    for key, entry in given.value.items():
        if key not in KEYS:
            file.unknown(entry.line, key, list(KEYS))
    return given.value


def _checked(file: SweepFile, key: str, entry: Entry) -> Any:
    try:
        value = KEYS[key].read(entry.value)
    except ValueError as error:
        file.refuse(entry.line, f"{key} is {entry.value!r}; it is {error}.")
    if key in sweep_keys.MODELS and isinstance(value, str):
        with file.at(entry.line, key):
            _find_model(key, value)
    return value


@functools.cache
def _find_model(key: str, name: str) -> None:
    if is_paid(name):
        from rag_lab import costs

        costs.price(name)  # raises for a model without a price
    elif name not in sweep_keys.MODELS[key]:
        kinds: dict[str, models.ModelKind] = {"embedding.model": "encoder", "retrieval.rerank": "classifier"}
        models.resolve(name, kinds.get(key, "language model"))


def _combined(file: SweepFile, mode: Entry, lists: Mapping[str, Entry]) -> list[Configuration]:
    columns = [entry.value for entry in lists.values()]
    if mode.value == "grid":
        if (count := math.prod(map(len, columns))) > MOST:
            sizes = " × ".join(f"{key} {len(entry.value)}" for key, entry in lists.items())
            longest = max(lists, key=lambda key: len(lists[key].value))
            file.refuse(
                lists[longest].line,
                f"the grid has {count:,} configurations ({sizes}), and {MOST:,} is the most: take values out, or set "
                "them side by side with sweep_mode: zip.",
            )
        return [dict(zip(lists, values, strict=True)) for values in itertools.product(*columns)]
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"{key} (line {entry.line}) {len(entry.value)}" for key, entry in lists.items())
        last = max(entry.line for entry in lists.values())
        file.refuse(last, f"zip needs lists of one length; the values are: {counts}.")
    return [dict(zip(lists, values, strict=True)) for values in zip(*columns, strict=True)] or [{}]


def _completed(file: SweepFile, given: Configuration, lines: Mapping[str, int]) -> Configuration:
    """With defaults for what is not given, and what only makes sense together checked."""
    strategy = given.get("chunking.strategy", KEYS["chunking.strategy"].default)
    defaults = {key: setting.default for key, setting in KEYS.items()}
    defaults["chunking.chunk_size"] = sweep_keys.default_size(strategy)
    full = {key: given.get(key, default) for key, default in defaults.items()}
    try:  # the rules are the same for every strategy
        chunk_chars(Document("", ""), full["chunking.chunk_size"], full["chunking.overlap"])
    except ValueError as error:
        line = lines.get("chunking.overlap", lines.get("chunking.chunk_size", 1))
        file.refuse(line, f"chunking.chunk_size and chunking.overlap under {strategy}: {error}")
    return full


def _corpus(file: SweepFile, top: Mapping[str, Entry]) -> Corpus:
    given = top.get("questions", Entry({}, 1))
    parts = given.value if isinstance(given.value, dict) else {"path": given}
    for key, entry in parts.items():
        if key not in QUESTIONS:
            file.unknown(entry.line, key, QUESTIONS)
    if "documents" in top:
        if "corpus" in top or "path" not in parts:
            file.refuse(top["documents"].line, "documents of your own need questions: FILE.jsonl, and no corpus.")
        folder = file.find(top["documents"], "documents")
        with file.at(top["documents"].line, "documents"):
            documents = tuple(load_folder(folder))
        path = file.find(parts["path"], "questions")
        with file.at(parts["path"].line, "questions"):
            questions = datasets.load_questions(path, documents)
    else:
        if "path" in parts:
            file.refuse(parts["path"].line, "questions of your own need documents: FOLDER.")
        named = top.get("corpus", Entry("handbook", 1))
        names = named.value if isinstance(named.value, list) else [named.value]
        if not names or not all(isinstance(name, str) for name in names):
            file.refuse(named.line, f"corpus is {named.value!r}; give a name, or a list of names.")
        with file.at(named.line, "corpus"):
            corpora = [datasets.load_corpus(name) for name in dict.fromkeys(names)]
        documents = tuple(document for corpus in corpora for document in corpus.documents)
        questions = tuple(question for corpus in corpora for question in corpus.questions)
    if not questions:
        file.refuse(given.line, "there are no questions.")
    return Corpus(file.name, documents, _sample(file, questions, parts))


def _sample(file: SweepFile, questions: Sequence[Question], parts: Mapping[str, Entry]) -> tuple[Question, ...]:
    whole = sweep_keys.whole(1, len(questions))
    counts: dict[str, Callable[[Any], Any]] = {"sample": whole, "seed": sweep_keys.whole(0)}
    numbers = {"sample": len(questions), "seed": 0}
    for key, entry in parts.items():
        if key != "path":
            try:
                numbers[key] = counts[key](entry.value)
            except ValueError as error:
                file.refuse(entry.line, f"questions.{key} is {entry.value!r}; it is {error}.")
    if numbers["sample"] == len(questions):
        return tuple(questions)
    positive = [q.id for q in questions if q.answerable]
    negative = [q.id for q in questions if not q.answerable]
    share = math.floor(numbers["sample"] * len(positive) / len(questions) + 0.5)
    draw = random.Random(numbers["seed"])
    kept = {*draw.sample(positive, share), *draw.sample(negative, numbers["sample"] - share)}
    return tuple(question for question in questions if question.id in kept)


def _templates(
    file: SweepFile, configurations: Sequence[Configuration], lines: Mapping[str, int]
) -> dict[str, Template]:
    key = "prompt.system_prompt_path"
    found = {}
    for path in dict.fromkeys(c[key] for c in configurations):
        beside = file.folder / path if file.folder and not Path(path).is_file() else Path(path)
        with file.at(lines.get(key, 1), key):
            found[path] = load_template(system=beside if beside.is_file() else path)
    return found


def _histories(
    file: SweepFile, configurations: Sequence[Configuration], lines: Mapping[str, int]
) -> dict[str, tuple[Message, ...]]:
    key = "dialog_history_path"
    found: dict[str, tuple[Message, ...]] = {}
    for configuration in configurations:
        path, wanted = configuration[key], configuration["dialog_history"]
        if path not in found:
            place = file.find(Entry(path, lines.get(key, 1)), key)
            with file.at(lines.get(key, 1), key):
                found[path] = sweep_keys.read_history(place)
        if wanted > len(found[path]):
            line = lines.get("dialog_history", 1)
            file.refuse(line, f"dialog_history is {wanted}; {path} has {len(found[path])} messages.")
    return found
