"""Command line: python -m rag_lab COMMAND --help."""

import argparse
import io
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

EXIT_CODES = """exit codes:
  0    done (ask: answered)
  1    failed, and the message says why (doctor: something must be fixed)
  2    wrong arguments
  3    ask: refused, because the folder does not answer the question
  4    ask: answered in part
  130  stopped by Ctrl-C; run sweep or questions again to continue
"""
RECORDED = (
    " The record is data/results/ID.json; a named row is always run again. Runs with --encoder, --llm, --reranker or "
    "--sample do not change the record: they are kept in the cache folder."
)
ASK_CODES = {"answered": 0, "error": 1, "refused": 3, "partial": 4}


def ask(asked: argparse.Namespace) -> int:
    """Answer a question from a folder of Markdown, text, HTML and PDF files, with checked citations."""
    from rag_lab.answering.extractive import ANSWER_THRESHOLD
    from rag_lab.answering.folder import ask, shown

    threshold = ANSWER_THRESHOLD if asked.threshold is None else asked.threshold
    found = ask(asked.folder, asked.question, asked.llm, asked.k, threshold)
    if found.status != "error":
        print(shown(found))
    if found.reason:
        print(f"{found.status}: {found.reason}", file=sys.stderr)
    return ASK_CODES[found.status]


def questions(asked: argparse.Namespace) -> int:
    """Generate and check questions about a folder: per passage one that it answers and one that nothing answers."""
    from rag_lab.answering.folder import chunks_of
    from rag_lab.documents import load_folder
    from rag_lab.evaluation.questions import generate_questions, report_questions
    from rag_lab.llm.load import load_llm

    whole = asked.per == "document"
    passages = load_folder(asked.folder) if whole else chunks_of(asked.folder)
    if asked.limit and asked.limit < len(passages):
        passages = [passages[i * len(passages) // asked.limit] for i in range(asked.limit)]
    records = generate_questions(passages, load_llm(asked.llm), asked.out, asked.per)
    for kind, one in report_questions(records).items():
        reasons = ", ".join(f"{why} {count}" for why, count in one.refused.items())
        print(f"{kind}s: {one.kept} of {one.written} kept" + (f"; refused: {reasons}" if reasons else ""))
        if one.searched:
            share = one.answered_elsewhere / one.searched
            print(f"  answered in another document: {one.answered_elsewhere} of {one.searched} ({share:.0%})")
    print(f'Review {asked.out} before you use it. To drop a question, set its "kept" to false or delete its line.')
    return 0


def sweep(asked: argparse.Namespace) -> int:
    """Run every configuration of a YAML file on every question, and rank them. A stopped sweep can be continued."""
    from rag_lab.sweeps import report
    from rag_lab.sweeps.run import run_sweep

    with ProcessPoolExecutor(asked.processes) if asked.processes > 1 else nullcontext() as executor:
        rows = run_sweep(asked.config, executor, asked.results)
    print(report.table(rows, asked.top))
    print("", *report.sentences(rows), sep="\n")
    if asked.html:
        print(report.write_report(rows, asked.html, title=Path(asked.config).stem))
    if errors := sum(row["counts"]["error"] for row in rows):
        print(
            f"error: {errors} answers failed and are not scored; run the sweep again to retry them.", file=sys.stderr
        )
    return 1 if errors else 0


def fetch(asked: argparse.Namespace) -> int:
    """Download published data sets and verify their checksums."""
    from rag_lab import datasets

    for name in asked.names:
        for path in datasets.fetch(name):
            print(path)
    return 0


def doctor(asked: argparse.Namespace) -> int:
    """Check Python, packages, models, cache, disk, hub and API key, and say how to fix what is wrong."""
    from rag_lab import doctor

    return doctor.main()


def reproduce(asked: argparse.Namespace) -> int:
    """Run published rows and show measured figures beside them. The id "list" says what each row needs."""
    from rag_lab.reproduce import run

    names = ("encoder", "llm", "reranker", "sample", "allow_remote_code")
    chosen = {name: value for name in names if (value := getattr(asked, name))}
    return run.command(asked.id, asked.offline, chosen)


def readme(asked: argparse.Namespace) -> int:
    """Rewrite the tables and the figure of the READMEs from the recorded results."""
    from rag_lab.reproduce import readme

    readme.update()
    return 0


def parser() -> argparse.ArgumentParser:
    """Every command with its arguments."""
    whole = argparse.ArgumentParser(
        prog="python -m rag_lab",
        description="RAG Lab's commands. Start with: python -m rag_lab doctor",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    llm = "short name (smollm2), hub id, path, or claude-… (needs RAG_LAB_MODE=live and a key)"

    add = _command(commands, ask, 'ask data/corpora/handbook "How many vacation days does a full-time employee get?"')
    add("folder", help="indexed by headings; vectors are kept for the next question")
    add("question")
    add("--llm", default="extractive", help=f"extractive (default: quotes the best sentence), or a {llm}")
    add("-k", type=_whole, default=5, help="passages to read (default 5)")
    add("--threshold", type=float, help="extractive: the lowest cosine of a sentence that counts as an answer")

    add = _command(commands, questions, "questions my_documents --out questions.jsonl --limit 30")
    add("folder")
    add("--out", required=True, metavar="FILE", help="JSON Lines, to be reviewed; an existing file is continued")
    add("--llm", default="smollm2", help=f"the model (default smollm2, which writes poor questions): {llm}")
    add("--per", choices=("chunk", "document"), default="chunk", help="two questions per chunk or document")
    add("--limit", type=_whole, metavar="N", help="only N passages, spread evenly over the folder")

    add = _command(commands, sweep, "sweep data/sweeps/example.yaml --processes 2 --html report.html")
    add("config", help="a YAML file; data/sweeps/example.yaml explains its keys")
    add("--results", metavar="FILE", help="JSON Lines (default: sweeps/NAME.jsonl in the cache folder)")
    add("--processes", type=_whole, default=1, metavar="N", help="number of parallel processes (default 1)")
    add("--html", metavar="FILE", help="also write the report to this page")
    add("--top", type=_whole, metavar="N", help="print only the best N rows")

    names = _data_sets()
    add = _command(commands, fetch, f"fetch scifact\n\nnames: {', '.join(names)}")
    add("names", nargs="+", choices=names, metavar="NAME")

    add = _command(commands, reproduce, "reproduce all --offline", RECORDED)
    add("id", metavar="ID", help="the id of a row, all, or list")
    add("--offline", action="store_true", help="use the bundled models instead of the paper's")
    add("--encoder", help="replace the row's encoder: short name, hub id or path")
    add("--llm", help=f"replace the row's language model: {llm}")
    add("--reranker", help="replace the row's reranker: a cross-encoder's hub id or path, or claude-…")
    add("--sample", type=_whole, metavar="N", help="only N questions, spread evenly")
    add("--allow-remote-code", action="store_true", help="run code from the encoder's repository")

    _command(commands, doctor, "doctor")
    _command(commands, readme, "readme")
    return whole


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code is one of ``EXIT_CODES``."""
    asked = parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note  # type: ignore[assignment]
            status: int = asked.run(asked)
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        return 130
    except (OSError, ValueError, RuntimeError, ImportError, LookupError) as error:
        if isinstance(error, KeyError | IndexError):  # a bug, not a message for the user
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status


def _command(commands: Any, run: Callable[[argparse.Namespace], int], example: str, more: str = "") -> Any:
    """Add the command ``run``; returns the method that adds an argument to it."""
    one = commands.add_parser(
        run.__name__,
        help=run.__doc__,
        description=f"{run.__doc__}{more}",
        epilog=f"example:\n  python -m rag_lab {example}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.set_defaults(run=run)
    return one.add_argument


def _data_sets() -> list[str]:
    """Names for ``fetch``; empty if a package is missing, so that ``doctor`` still starts and names it."""
    try:
        from rag_lab.datasets import DOWNLOADS
    except ImportError:
        return []
    return sorted(DOWNLOADS)


def _note(message: Warning | str, *_: object) -> None:
    """Print a warning as one line, without its place in the code."""
    print(f"note: {message}", file=sys.stderr)


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):  # a character that a Windows file or pipe lacks becomes "?"
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(main())
