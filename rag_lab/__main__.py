"""Command line: python -m rag_lab COMMAND --help."""

import argparse
import io
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

EXIT_CODES = """exit codes:
  0    done; of ask: answered
  1    it failed, and the sentence printed says why; of doctor: something is to be fixed
  2    wrong arguments
  3    ask: refused, because the folder does not answer the question
  4    ask: answered in part
  130  stopped by Ctrl-C; sweep and questions go on where they were when started again
"""
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
    """Generate questions about a folder: one that each passage answers, one that nothing answers; all checked."""
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
    print(f'{asked.out}: read it before you use it. To refuse one, set its "kept" to false, or delete its line.')
    return 0


def sweep(asked: argparse.Namespace) -> int:
    """Run every configuration of a YAML file on every question, and rank them. A stopped sweep goes on."""
    from rag_lab.sweeps import report
    from rag_lab.sweeps.run import run_sweep

    if asked.processes == 1:
        rows = run_sweep(asked.config, results=asked.results)
    else:
        with ProcessPoolExecutor(asked.processes) as executor:
            rows = run_sweep(asked.config, executor, asked.results)
    print(report.table(rows, asked.top))
    print("", *report.sentences(rows), sep="\n")
    if asked.html:
        print(report.write_report(rows, asked.html, title=Path(asked.config).stem))
    if errors := sum(row["counts"]["error"] for row in rows):
        print(f"error: {errors} answers failed, and are not scored; run it again to ask for these.", file=sys.stderr)
    return 1 if errors else 0


def fetch(asked: argparse.Namespace) -> int:
    """Download published data sets, checked against their checksums."""
    from rag_lab import datasets

    for name in asked.names:
        for path in datasets.fetch(name):
            print(path)
    return 0


def doctor(asked: argparse.Namespace) -> int:
    """Check Python, packages, models, cache, hub, key and disk, and say what to do."""
    from rag_lab import doctor

    return doctor.main()


def reproduce(asked: argparse.Namespace) -> int:
    """Run published rows and put what is measured beside them; the id list says what each row needs."""
    from rag_lab.reproduce import run

    names = ("encoder", "llm", "reranker", "sample", "allow_remote_code")
    chosen = {name: value for name in names if (value := getattr(asked, name))}
    return run.command(asked.id, asked.offline, chosen)


def readme(asked: argparse.Namespace) -> int:
    """Write the README's tables and figure anew from the recorded results."""
    from rag_lab.reproduce import readme

    readme.update()
    return 0


def parser() -> argparse.ArgumentParser:
    """Every command with its arguments."""
    whole = argparse.ArgumentParser(
        prog="python -m rag_lab",
        description="RAG Lab's commands. Begin with: python -m rag_lab doctor",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    llm = "SHORT NAME (smollm2), hub id, path, or claude-… (RAG_LAB_MODE=live and a key)"

    one = _command(commands, ask, 'ask data/corpora/handbook "How many vacation days does a full-time employee get?"')
    one.add_argument("folder", help="its files are indexed by their headings; vectors are kept for the next question")
    one.add_argument("question")
    one.add_argument(
        "--llm", default="extractive", help=f"who answers: extractive (default: the best sentence, quoted), or {llm}"
    )
    one.add_argument("-k", type=_whole, default=5, help="passages to read (default 5)")
    one.add_argument(
        "--threshold", type=float, help="extractive: the least cosine of a sentence that counts as an answer"
    )

    one = _command(commands, questions, "questions my_documents --out questions.jsonl --limit 30")
    one.add_argument("folder")
    one.add_argument(
        "--out", required=True, metavar="FILE", help="JSON lines, to be reviewed; an old one is continued"
    )
    one.add_argument("--llm", default="smollm2", help=f"who writes (default smollm2, which writes poor ones): {llm}")
    one.add_argument(
        "--per", choices=("chunk", "document"), default="chunk", help="one pair for each (default chunk)"
    )
    one.add_argument("--limit", type=_whole, metavar="N", help="only N passages, spread evenly over the folder")

    one = _command(commands, sweep, "sweep data/sweeps/example.yaml --processes 2 --html report.html")
    one.add_argument("config", help="a YAML file; its keys are explained in data/sweeps/example.yaml")
    one.add_argument("--results", metavar="FILE", help="JSON lines (default: sweeps/NAME.jsonl in the cache folder)")
    one.add_argument("--processes", type=_whole, default=1, metavar="N", help="processes to work side by side (1)")
    one.add_argument("--html", metavar="FILE", help="write the report to this page too")
    one.add_argument("--top", type=_whole, metavar="N", help="print only the best N rows")

    one = _command(commands, fetch, "fetch scifact")
    one.add_argument("names", nargs="+", choices=_data_sets(), metavar="NAME")
    one.epilog = f"names: {', '.join(_data_sets())}\n\n{one.epilog}"

    one = _command(commands, reproduce, "reproduce all --offline")
    one.add_argument("id", metavar="ID", help="of a row, or all, or list")
    one.add_argument("--offline", action="store_true", help="the bundled models instead of the paper's own")
    one.add_argument("--encoder", help="instead of the row's own: short name, hub id or path")
    one.add_argument("--llm", help=f"instead of the row's own: {llm}")
    one.add_argument("--reranker", help="instead of the row's own: a cross-encoder's hub id or path, or claude-…")
    one.add_argument("--sample", type=_whole, metavar="N", help="only N questions, spread evenly")
    one.description = (
        f"{one.description} A row is recorded in data/results/ID.json, and anew where it is named. Runs with "
        "--encoder, --llm, --reranker or --sample leave that record as it is: they are kept in the cache folder."
    )
    one.add_argument("--allow-remote-code", action="store_true", help="run code from the encoder's repository")

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
        if isinstance(error, KeyError | IndexError):  # a bug, not a sentence for the user
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status


def _command(commands: argparse._SubParsersAction, run, example: str) -> argparse.ArgumentParser:  # type: ignore[no-untyped-def]
    one: argparse.ArgumentParser = commands.add_parser(
        run.__name__,
        help=run.__doc__,
        description=run.__doc__,
        epilog=f"example:\n  python -m rag_lab {example}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.set_defaults(run=run)
    return one


def _data_sets() -> list[str]:
    """Names for ``fetch``; none if a package is missing, so that ``doctor`` still starts and says which."""
    try:
        from rag_lab.datasets import DOWNLOADS
    except ImportError:
        return []
    return sorted(DOWNLOADS)


def _note(message: Warning | str, *_: object) -> None:
    """A warning as a line, without the place in the code that it comes from."""
    print(f"note: {message}", file=sys.stderr)


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):  # a file or pipe on Windows may lack a character: it becomes a "?"
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(main())
