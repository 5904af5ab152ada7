"""What the scripts of this folder share: their options, the package's command line, and tables in Markdown."""

import argparse
import subprocess
import sys


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser whose help is the docstring of the script, as it stands."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


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
