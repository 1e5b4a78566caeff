"""Sweep files: YAML to a list of configurations, all checked before anything runs."""

import contextlib
import difflib
import functools
import inspect
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from rag_lab import datasets, settings
from rag_lab.chunking import CHUNKERS, chunk_chars
from rag_lab.documents import load_folder
from rag_lab.llm import pricing
from rag_lab.llm.load import is_paid
from rag_lab.models import hub
from rag_lab.prompting.build import Message
from rag_lab.prompting.injection import Mode, parse_mode
from rag_lab.prompting.templates import Template, load_template
from rag_lab.types import Document, Question

DEPTH = 50  # hits of every retrieval: a smaller k takes the first of them, so configurations share one search
MOST = 10_000  # configurations; each is held in memory, and a typo can ask for millions

# Settings that name a model, and those of their values that name none.
MODELS: dict[str, tuple[str, ...]] = {
    "embedding.model": (),
    "context.model": (),
    "retrieval.rerank": ("none", "max_sim", "query_likelihood"),
    "llm.model": ("extractive",),
}

# Settings that make no difference to llm.model extractive, which has no prompt and only quotes.
NOT_EXTRACTIVE = ("prompt.", "dialog_history", "clean_context_instructions", "llm.", "retrieval.threshold")

_GROUPS = ("embedding", "chunking", "context", "retrieval", "extractive", "prompt", "llm")


def _dotted(name: str) -> str:
    group, _, rest = name.partition("_")
    return f"{group}.{rest}" if group in _GROUPS else name


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("it should be a name or path")
    return value


def _unpaid(value: str) -> str:
    if is_paid(value):
        raise ValueError("it should be a local model: a short name, a hub id or a path")
    return value


Name = Annotated[str, AfterValidator(_text)]
LocalName = Annotated[Name, AfterValidator(_unpaid)]
# YAML reads off, no and yes as booleans, and a lone text is a list or a map of one.
_NoneFirst = BeforeValidator(lambda value: "none" if value is None or value is False else value)
_ModeFirst = BeforeValidator(lambda value: parse_mode(value) if isinstance(value, bool) else value)
_ListFirst = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
_MapFirst = BeforeValidator(lambda value: {"path": value} if isinstance(value, str) else value)


@contextlib.contextmanager
def _naming(what: str) -> Iterator[None]:
    """Put ``what`` (a file, a key) before the message of any error inside, in one sentence."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(f"{what}: {_problem(error.errors()[0])}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{what}: it is not UTF-8 (byte {error.start}); save it as UTF-8.") from error
    except RecursionError as error:
        raise ValueError(f"{what}: it is nested too deeply, or a map contains itself by an alias.") from error
    except (ValueError, OSError) as error:
        kind = FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
        raise kind(f"{what}: {error}") from error


class SweepConfig(BaseModel):
    """The settings of one run. In files and rows each field has its dotted key, such as ``llm.model``.

    ``chunking_chunk_size`` is in the unit of the strategy: words for by_words, tokens for by_tokens, else characters;
    None is one unit per chunk. ``chunking_overlap`` is in the unit of raw, by_words and by_tokens, else in words.
    ``retrieval_threshold`` is the abstention threshold of language models, on the score of the first hit;
    ``extractive_threshold`` is that of the extractive reader, on the cosine of the best sentence.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", alias_generator=_dotted)

    embedding_model: LocalName = "minilm"
    embedding_late: bool = False
    chunking_strategy: Literal[*CHUNKERS] = "by_paragraphs"  # type: ignore[valid-type]
    chunking_chunk_size: PositiveInt | None = Field(
        default_factory=lambda data: inspect.signature(CHUNKERS[data["chunking_strategy"]]).parameters["size"].default
    )
    chunking_overlap: NonNegativeInt = 0
    context_method: Annotated[Literal["none", "headings", "llm"], _NoneFirst] = "none"
    context_model: Name = "smollm2"
    retrieval_method: Literal["dense", "bm25", "hybrid"] = "dense"
    retrieval_top_k: Annotated[int, Field(ge=1, le=DEPTH)] = 5
    retrieval_rerank: Annotated[LocalName, _NoneFirst] = "none"
    retrieval_threshold: FiniteFloat | None = None
    extractive_threshold: FiniteFloat | None = None
    prompt_system_prompt_path: Name = "prompts/strong.txt"
    prompt_order: Literal["ranked", "long_context"] = "ranked"
    clean_context_instructions: Annotated[Mode, _ModeFirst] = "off"
    dialog_history: NonNegativeInt = 0
    dialog_history_path: Name = "dialogs/unrelated.jsonl"
    llm_model: Name = "extractive"
    llm_temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    llm_max_tokens: PositiveInt = 128

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        with _naming(f"chunking.chunk_size and chunking.overlap under {self.chunking_strategy}"):
            chunk_chars(
                Document("", ""), self.chunking_chunk_size, self.chunking_overlap
            )  # the rules of all strategies
        return self

    def settings(self) -> dict[str, Any]:
        """All settings by dotted key."""
        return self.model_dump(by_alias=True)

    @property
    def index(self) -> tuple[Any, ...]:
        """The settings that decide chunks and vectors: equal tuples share an index."""
        return tuple(v for k, v in self.settings().items() if k.startswith(("embedding.", "chunking.", "context.")))

    @property
    def extractive(self) -> bool:
        """Whether sentences are quoted and no language model answers."""
        return self.llm_model == "extractive"

    @property
    def context_unread(self) -> bool:
        """Whether chunks have a context that nothing reads.

        Late chunking embeds the document itself, and a prompt quotes only the chunk: BM25 and rerankers are left.
        """
        read = self.retrieval_method != "dense" or self.retrieval_rerank != "none"
        return self.context_method != "none" and self.embedding_late and not read

    @property
    def pays_for_context(self) -> bool:
        """Whether a paid model writes the context of the chunks."""
        return self.context_method == "llm" and is_paid(self.context_model)


KEYS = {_dotted(name): name for name in SweepConfig.model_fields}  # dotted key to field
DEFAULT = SweepConfig()


class _Questions(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    path: str | None = None
    sample: PositiveInt | None = None
    seed: NonNegativeInt = 0


class _SweepFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    sweep_mode: Literal["grid", "zip"] = "grid"
    corpus: Annotated[list[str], Field(min_length=1), _ListFirst] = ["handbook"]
    documents: str | None = None
    questions: Annotated[_Questions, _MapFirst] = _Questions()
    fixed: dict[str, Any] = {}
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}


@dataclass(frozen=True)
class Sweep:
    """Configurations and the data that they run on.

    ``swept`` names the keys with more than one value. ``templates`` and ``histories`` hold the content of the files
    that the configurations name, by path, as it was when the sweep was loaded.
    """

    name: str
    mode: Literal["grid", "zip"]
    configurations: tuple[SweepConfig, ...]
    swept: tuple[str, ...]
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    templates: Mapping[str, Template]
    histories: Mapping[str, tuple[Message, ...]]

    def history(self, config: SweepConfig) -> tuple[Message, ...]:
        """The last ``dialog_history`` messages of the file that ``config`` names."""
        messages = self.histories[config.dialog_history_path]
        return messages[len(messages) - config.dialog_history :]


def load_sweep(path: str | Path) -> Sweep:
    """The sweep in a YAML file; see ``parse_sweep``. Raises FileNotFoundError if there is no such file."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"There is no sweep file {str(path)!r}; examples are in data/sweeps.")
    with _naming(path.name):
        text = path.read_text(encoding="utf-8-sig")
    return parse_sweep(text, path.name, path.parent)


def parse_sweep(text: str, name: str = "sweep", folder: Path | None = None) -> Sweep:
    """The sweep that YAML text describes.

    ``sweep_mode`` is ``grid`` (every value with every other) or ``zip`` (the first value of every list together, then
    the second ones). ``fixed`` and ``sweep`` hold the keys of ``KEYS``, dotted or as nested maps; in ``sweep`` each
    has a list. ``corpus`` is a built-in corpus (default: handbook) or a list of them, searched together. Instead,
    ``documents`` can name a folder and ``questions`` a JSON Lines file. ``questions: {path, sample, seed}`` draws
    ``sample`` of them and keeps the share of those without an answer. Paths are looked up as they are, then in
    ``folder``, then in ``data``. A grid has at most ``MOST`` configurations. ``name``, without its ending ``.yaml``
    or ``.yml``, is that of the sweep.

    Raises ValueError, or FileNotFoundError for a missing file, folder or model. The message is one sentence with the
    name of the file, the key and its value; for an unknown key it names the nearest known one.
    """
    with _naming(name):
        file = _read(text)
        if both := sorted(file.fixed.keys() & file.sweep.keys()):
            raise ValueError(f"{both[0]} is under fixed and under sweep: choose one.")
        configurations = tuple(SweepConfig.model_validate(file.fixed | values) for values in _combined(file))
        _check_together(configurations)
        documents, questions = _data(file, folder)
        return Sweep(
            name.removesuffix(".yaml").removesuffix(".yml"),
            file.sweep_mode,
            configurations,
            tuple(key for key in file.sweep if len({getattr(c, KEYS[key]) for c in configurations}) > 1),
            documents,
            _sample(questions, file.questions),
            _templates(configurations, folder),
            _histories(configurations, folder),
        )


def _problem(error: ErrorDetails) -> str:
    key = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        known = [*KEYS, *_SweepFile.model_fields, *(f"questions.{k}" for k in _Questions.model_fields)]
        return f"there is no key {key!r}; the nearest is {difflib.get_close_matches(key, known, 1, 0.0)[0]!r}"
    message = error["msg"].removeprefix("Value error, ").removesuffix(".").replace("Input should", "it should")
    return f"{key} is {error['input']!r}; {message}" if key else message


class _Loader(yaml.SafeLoader):
    """Refuses repeated keys, and names the line of a value that cannot be read (the 13th month, say)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        counts = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for key, count in counts.items():
            if count > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            problem = f"a value cannot be read ({error}); put it in quotes if it is text"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def _read(text: str) -> _SweepFile:
    try:
        top = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"this cannot be read as YAML: {line}{error.problem}.") from error
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise ValueError(f"this cannot be read as YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(top, dict):
        raise ValueError(f"a sweep file is a map with the keys {', '.join(_SweepFile.model_fields)}.")
    for part in ("fixed", "sweep"):
        if isinstance(top.get(part), dict):
            top[part] = dict(_leaves(top[part], "", set()))
    return _SweepFile.model_validate(top)


def _leaves(values: Mapping[Any, Any], prefix: str, seen: set[str]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}.", seen)
        elif name in seen:  # once dotted, once in a nested map
            raise ValueError(f"{name} is given twice: leave one out.")
        else:
            seen.add(name)
            yield name, value


def _combined(file: _SweepFile) -> Iterable[dict[str, Any]]:
    columns = list(file.sweep.values())
    counts = ", ".join(f"{key} {len(values)}" for key, values in file.sweep.items())
    grid = file.sweep_mode == "grid" or not columns
    if grid and (count := math.prod(map(len, columns))) > MOST:
        raise ValueError(
            f"the grid has {count:,} configurations ({counts}), and {MOST:,} is the most: take values out, or use "
            "sweep_mode: zip."
        )
    if not grid and len({len(column) for column in columns}) > 1:
        raise ValueError(f"zip needs lists of one length; the numbers of values are: {counts}.")
    combined = itertools.product(*columns) if grid else zip(*columns, strict=True)
    return (dict(zip(file.sweep, values, strict=True)) for values in combined)


def _check_together(configurations: Sequence[SweepConfig]) -> None:
    first: dict[SweepConfig, int] = {}
    for number, configuration in enumerate(configurations, 1):
        if first.setdefault(configuration, number) != number:
            raise ValueError(f"runs {first[configuration]} and {number} are the same: leave one out.")
    contextual = [c for c in configurations if c.context_method != "none"]
    if contextual and all(c.context_unread for c in contextual):
        raise ValueError(
            f"context.method is {contextual[0].context_method!r}, which no run reads: embedding.late embeds the "
            "document itself, and there is neither BM25 nor a reranker. Leave context.method out, or set "
            "embedding.late: false or retrieval.method: hybrid."
        )
    for key in MODELS:
        for name in dict.fromkeys(getattr(c, KEYS[key]) for c in configurations):
            with _naming(key):
                _find_model(key, name)


@functools.cache
def _find_model(key: str, name: str) -> None:
    if is_paid(name):
        pricing.price(name)  # raises ValueError for a model without a price
    elif name not in MODELS[key]:
        kinds: dict[str, hub.ModelKind] = {"embedding.model": "encoder", "retrieval.rerank": "classifier"}
        hub.resolve(name, kinds.get(key, "language model"))


def _find(path: str, folder: Path | None) -> Path:
    for parent in filter(None, (Path(), folder, settings.DATA)):
        if (found := parent / Path(path).expanduser()).exists():
            return found
    raise FileNotFoundError(f"there is no {path!r}; check the path.")


def _data(file: _SweepFile, folder: Path | None) -> tuple[tuple[Document, ...], tuple[Question, ...]]:
    if file.documents is not None and file.questions.path is not None and "corpus" not in file.model_fields_set:
        with _naming("documents"):
            documents = tuple(load_folder(_find(file.documents, folder)))
        with _naming("questions"):
            questions = tuple(datasets.load_questions(_find(file.questions.path, folder), documents))
    elif file.documents is not None or file.questions.path is not None:
        raise ValueError("your own documents need documents: FOLDER and questions: FILE.jsonl, and no corpus.")
    else:
        with _naming("corpus"):
            corpora = [datasets.load_corpus(name) for name in dict.fromkeys(file.corpus)]
        documents = tuple(document for corpus in corpora for document in corpus.documents)
        questions = tuple(question for corpus in corpora for question in corpus.questions)
    if not questions:
        raise ValueError("questions: there are none; write one per line.")
    return documents, questions


def _sample(questions: tuple[Question, ...], options: _Questions) -> tuple[Question, ...]:
    n = len(questions) if options.sample is None else options.sample
    if n > len(questions):
        raise ValueError(f"questions.sample is {n}; there are {len(questions)} questions.")
    positive, negative = ([q.id for q in questions if q.answerable == wanted] for wanted in (True, False))
    share = math.floor(n * len(positive) / len(questions) + 0.5)
    draw = random.Random(options.seed)
    drawn = {*draw.sample(positive, share), *draw.sample(negative, n - share)}
    return tuple(question for question in questions if question.id in drawn)


def _templates(configurations: Sequence[SweepConfig], folder: Path | None) -> dict[str, Template]:
    found = {}
    for path in dict.fromkeys(c.prompt_system_prompt_path for c in configurations):
        beside = folder / path if folder and not Path(path).is_file() else Path(path)
        with _naming("prompt.system_prompt_path"):
            found[path] = load_template(system=beside if beside.is_file() else path)
    return found


def _histories(configurations: Sequence[SweepConfig], folder: Path | None) -> dict[str, tuple[Message, ...]]:
    found: dict[str, tuple[Message, ...]] = {}
    for configuration in configurations:
        wanted, path = configuration.dialog_history, configuration.dialog_history_path
        if path not in found:
            with _naming("dialog_history_path"):
                found[path] = tuple(_messages(_find(path, folder)))
        if wanted > len(found[path]):
            raise ValueError(f"dialog_history is {wanted}; {path} has {len(found[path])} messages.")
    return found


class _HistoryLine(BaseModel):
    role: Literal["user", "assistant"]
    text: str


def _messages(path: Path) -> Iterator[Message]:
    # not splitlines, which also splits at U+2028
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if line.strip():
            with _naming(f"{path}, line {number}"):
                message = _HistoryLine.model_validate_json(line)
            yield message.role, message.text
