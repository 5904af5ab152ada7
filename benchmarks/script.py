"""What the scripts of this folder share: their options, the package's command line, and tables in Markdown.

Each script ends with one JSON object, and with `--quick` within seconds: its figures say nothing then, but that it
runs.
"""

import argparse
import subprocess
import sys
from typing import Any, NoReturn

LACKING = 3
"""Exit status of a script that needs what is not here: a model, a browser, an extra."""


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser whose help is the docstring of the script, as it stands."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def parse_options(parser: argparse.ArgumentParser, **quick: Any) -> argparse.Namespace:
    """Parse the command line. With `--quick` the options have these values, unless they are named too."""
    values = ", ".join(f"{name} {value}" for name, value in quick.items())
    parser.add_argument("--quick", action="store_true", help=f"only show that it runs, within seconds ({values})")
    if "--quick" in sys.argv[1:]:
        parser.set_defaults(**quick)
    return parser.parse_args()


def exit_lacking(what: str) -> NoReturn:
    """Say what the script needs and does not find here."""
    print(f"not run: it needs {what}")
    raise SystemExit(LACKING)


def run_cli(*words: object) -> None:
    """Run a command of the package; what it prints goes to stderr."""
    command = [sys.executable, "-c", "from rsso_dspy.cli import main; main()", *map(str, words)]
    subprocess.run(command, check=True, stdout=sys.stderr)


def print_head(*names: str) -> None:
    """Print the first two lines of a table."""
    print(f"| {' | '.join(names)} |\n{'|---' * len(names)}|", flush=True)


def print_row(*cells: object) -> None:
    """Print a row of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
