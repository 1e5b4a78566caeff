"""Command line: python -m rag_lab COMMAND --help."""

import argparse
import sys

from rag_lab import downloads


def fetch(asked: argparse.Namespace) -> int:
    """Download published data sets, checked against their checksums."""
    for name in asked.names:
        for path in downloads.fetch(name):
            print(path)
    return 0


def readme(asked: argparse.Namespace) -> int:
    """Write the README's tables and figure anew from the recorded results."""
    from rag_lab import readme_tables

    readme_tables.update()
    return 0


def main() -> int:
    """Exit status 0: done, 1: it failed with the sentence printed, 2: wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m rag_lab", description="RAG Lab's commands.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("fetch", help=fetch.__doc__)
    one.add_argument("names", nargs="+", choices=sorted(downloads.DOWNLOADS), metavar="NAME")
    one.epilog = f"names: {', '.join(sorted(downloads.DOWNLOADS))}"
    one.set_defaults(run=fetch)
    one = commands.add_parser("readme", help=readme.__doc__)
    one.set_defaults(run=readme)
    asked = parser.parse_args()
    try:
        status: int = asked.run(asked)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
