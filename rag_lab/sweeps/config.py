"""A sweep file's YAML with the line of every key, and errors that name it.

The keys of a sweep file: what each may be, and its default.

Sweep files: YAML to a list of configurations, every one of them checked before anything runs.
"""

import contextlib
import difflib
import functools
import inspect
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from rag_lab import datasets, settings
from rag_lab.chunking import CHUNKERS, chunk_chars
from rag_lab.documents import load_folder
from rag_lab.llm.load import is_paid
from rag_lab.models import hub
from rag_lab.prompting.build import Message
from rag_lab.prompting.injection import parse_mode
from rag_lab.prompting.templates import Template, load_template
from rag_lab.types import Corpus, Document, Question

TOP = ("sweep_mode", "corpus", "documents", "questions", "fixed", "sweep")
MAPS = ("questions", "fixed", "sweep")  # maps in which become dotted keys


@dataclass(frozen=True)
class Entry:
    """A value and the line that its key stands in."""

    value: Any
    line: int


class SweepFile:
    """A sweep file that is being read: its name, for errors, and the folder that paths in it may be relative to."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self.name = name
        self.folder = folder

    def refuse(self, line: int, problem: str, kind: type[Exception] = ValueError) -> NoReturn:
        """Raise ``kind``, naming file and line."""
        raise kind(f"{self.name}, line {line}: {problem}")

    def unknown(self, line: int, key: str, known: Sequence[str]) -> NoReturn:
        """Refuse a key that is none of ``known``, naming the nearest."""
        near = difflib.get_close_matches(key, known, 1, 0.0)[0]
        self.refuse(line, f"there is no key {key!r}; the nearest is {near!r}.")

    @contextlib.contextmanager
    def at(self, line: int, what: str) -> Iterator[None]:
        """What goes wrong with a file or a name inside is refused with the line that names it."""
        try:
            yield
        except UnicodeDecodeError as error:
            self.refuse(line, f"{what}: it is not UTF-8 (byte {error.start}); save it as UTF-8.")
        except (ValueError, OSError) as error:
            kind = FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
            self.refuse(line, f"{what}: {error}", kind)

    def find(self, entry: Entry, what: str) -> Path:
        """The path as it is, else beside the sweep file, else in ``data``."""
        if not isinstance(entry.value, str):
            self.refuse(entry.line, f"{what} is {entry.value!r}; give a path.")
        with self.at(entry.line, what):  # a name may be too long for the system
            for folder in filter(None, (Path(), self.folder, settings.DATA)):
                if (path := folder / Path(entry.value).expanduser()).exists():
                    return path
        self.refuse(entry.line, f"{what}: there is no {entry.value!r}; check the path.", FileNotFoundError)


def read_top(file: SweepFile, text: str) -> dict[str, Entry]:
    """The values by key; those of ``MAPS`` are again entries, by dotted key. Refuses what is no such file."""
    try:
        return _entries(file, yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        file.refuse(line, f"this is not YAML: {error.problem}.")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        file.refuse(line, f"this is not YAML: the character U+{ord(text[error.position]):04X} is not allowed.")
    except RecursionError:
        file.refuse(1, "it is nested too deep, or a map holds itself by an alias.")


def _entries(file: SweepFile, node: yaml.Node | None) -> dict[str, Entry]:
    if not isinstance(node, yaml.MappingNode):
        file.refuse(1, f"a sweep file is a map with the keys {', '.join(TOP)}.")
    found: dict[str, Entry] = {}
    for key, value, line in _pairs(file, node):
        if key not in TOP:
            file.unknown(line, key, TOP)
        if key in MAPS and isinstance(value, yaml.MappingNode):
            leaves: dict[str, Entry] = {}
            for name, entry in _leaves(file, value, ""):
                if name in leaves:  # once dotted, once as a map in a map
                    file.refuse(entry.line, f"{name} stands in line {leaves[name].line} too: leave one out.")
                leaves[name] = entry
            found[key] = Entry(leaves, line)
        else:
            found[key] = Entry(_value(file, value), line)
    return found


def _pairs(file: SweepFile, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, int]]:
    seen: dict[str, int] = {}
    for key_node, value in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            file.refuse(key_node.start_mark.line + 1, "a key is a list or a map here; give a name.")
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in seen:
            file.refuse(line, f"{key} stands in line {seen[key]} too: leave one out.")
        seen[key] = line
        yield key, value, line


def _leaves(file: SweepFile, node: yaml.MappingNode, before: str) -> Iterator[tuple[str, Entry]]:
    for key, value, line in _pairs(file, node):
        if isinstance(value, yaml.MappingNode):
            yield from _leaves(file, value, f"{before}{key}.")
        else:
            yield f"{before}{key}", Entry(_value(file, value), line)


def _value(file: SweepFile, node: yaml.Node) -> Any:
    try:
        return yaml.SafeLoader("").construct_document(node)
    # PyYAML's own, and what Python raises inside it for the 13th month, "!!bool maybe" or "!!timestamp x".
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        problem = getattr(error, "problem", None) or error
        file.refuse(
            node.start_mark.line + 1, f"this value cannot be read ({problem}); put it in quotes if it is text."
        )


Configuration = dict[str, Any]
Read = Callable[[Any], Any]

DEPTH = 50  # hits that every retrieval asks for: a shorter list is its beginning, so configurations share one

# Keys that name a model, and the values of each that name none.
MODELS = {
    "embedding.model": (),
    "context.model": (),
    "retrieval.rerank": ("none", "max_sim", "query_likelihood"),
    "llm.model": ("extractive",),
}

# What makes no difference to llm.model extractive, which has no prompt and only quotes.
NOT_EXTRACTIVE = ("prompt.", "dialog_history", "clean_context_instructions", "llm.", "retrieval.threshold")


@dataclass(frozen=True)
class Key:
    """``read`` gives the value as a configuration holds it; its ValueError says what the value may be."""

    default: Any
    read: Read


def whole(least: int, most: float = math.inf) -> Read:
    """Reads a whole number in [least, most]."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least}" + (f" to {most:g}" if most < math.inf else ""))
        return value

    return read


def _size(value: Any) -> int | None:
    try:
        return None if value is None else whole(1)(value)
    except ValueError as error:
        raise ValueError(f"{error}, or null for one unit a chunk") from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
        raise ValueError("a number from 0 to 2")
    return float(value)


def _score(value: Any) -> float | None:
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)
    ):
        raise ValueError("a score, or null for none")
    return None if value is None else float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _local(value: Any) -> str:
    if is_paid(_text(value)):
        raise ValueError("minilm, or the hub id or path of an embedding model")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a name or path")
    return value


def _one_of(*names: str) -> Read:
    def read(value: Any) -> str:
        value = "none" if "none" in names and value in (None, False) else value
        if value not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return value

    return read


def _rerank(value: Any) -> str:
    if value in (None, False):
        return "none"
    if not isinstance(value, str) or is_paid(value):
        raise ValueError("none, max_sim, query_likelihood, or the hub id or path of a cross-encoder")
    return value


def _clean(value: Any) -> str:
    try:
        return parse_mode(value)
    except (ValueError, TypeError) as error:
        raise ValueError("off, flag or strip (false is off, true is strip)") from error


# chunk_size is in the strategy's own unit: words for by_words, tokens for by_tokens, characters for all others. So is
# overlap for raw (characters), by_words and by_tokens; for the others it is in words.
KEYS = {
    "embedding.model": Key("minilm", _local),
    "embedding.late": Key(False, _flag),
    "chunking.strategy": Key("by_paragraphs", _one_of(*CHUNKERS)),
    "chunking.chunk_size": Key(None, _size),
    "chunking.overlap": Key(0, whole(0)),
    "context.method": Key("none", _one_of("none", "headings", "llm")),
    "context.model": Key("smollm2", _text),
    "retrieval.method": Key("dense", _one_of("dense", "bm25", "hybrid")),
    "retrieval.top_k": Key(5, whole(1, DEPTH)),
    "retrieval.rerank": Key("none", _rerank),
    "retrieval.threshold": Key(None, _score),  # the gate of language models, on the first hit's score
    "extractive.threshold": Key(None, _score),  # of llm.model extractive, on the best sentence's cosine
    "prompt.system_prompt_path": Key("prompts/strong.txt", _text),
    "prompt.order": Key("ranked", _one_of("ranked", "long_context")),
    "clean_context_instructions": Key("off", _clean),
    "dialog_history": Key(0, whole(0)),
    "dialog_history_path": Key("dialogs/unrelated.jsonl", _text),
    "llm.model": Key("extractive", _text),
    "llm.temperature": Key(0.0, _number),
    "llm.max_tokens": Key(128, whole(1)),
}


def context_unread(settings: Configuration) -> bool:
    """Whether a chunk's context is there, but nobody reads it.

    Late vectors are those of the document itself, and a prompt quotes the chunk alone: BM25 and rerankers are left.
    """
    elsewhere = settings["retrieval.method"] != "dense" or settings["retrieval.rerank"] != "none"
    return settings["context.method"] != "none" and settings["embedding.late"] and not elsewhere


def default_size(strategy: str) -> int | None:
    """The strategy's own chunk size."""
    return inspect.signature(CHUNKERS[strategy]).parameters["size"].default


def read_history(path: Path) -> tuple[Message, ...]:
    """Messages, oldest first: JSON lines with ``role`` (user or assistant) and ``text``. ValueError for others."""
    messages = []
    # not splitlines, which parts a line at U+2028 too
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            message = (record["role"], record["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f'{path}, line {number} is not {{"role": …, "text": …}}.') from error
        if message[0] not in ("user", "assistant") or not isinstance(message[1], str):
            raise ValueError(f"{path}, line {number}: the role {message[0]!r} is neither user nor assistant.")
        messages.append(message)
    return tuple(messages)


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
    if key in MODELS and isinstance(value, str):
        with file.at(entry.line, key):
            _find_model(key, value)
    return value


@functools.cache
def _find_model(key: str, name: str) -> None:
    if is_paid(name):
        from rag_lab.llm import pricing

        pricing.price(name)  # raises for a model without a price
    elif name not in MODELS[key]:
        kinds: dict[str, hub.ModelKind] = {"embedding.model": "encoder", "retrieval.rerank": "classifier"}
        hub.resolve(name, kinds.get(key, "language model"))


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
    defaults["chunking.chunk_size"] = default_size(strategy)
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
    at_least_one = whole(1, len(questions))
    counts: dict[str, Callable[[Any], Any]] = {"sample": at_least_one, "seed": whole(0)}
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
                found[path] = read_history(place)
        if wanted > len(found[path]):
            line = lines.get("dialog_history", 1)
            file.refuse(line, f"dialog_history is {wanted}; {path} has {len(found[path])} messages.")
    return found
