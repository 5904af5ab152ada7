"""The reference page of the Python interface, from the docstrings of `rsso_dspy.__all__`.

python -m rsso_dspy.cli.api_reference docs/API.md        # write it
"""

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

COMMAND = "python -m rsso_dspy.cli.api_reference docs/API.md"
"""The command that writes the page."""

START = f"""# Python

What `import rsso_dspy` offers, from its docstrings (`{COMMAND}` writes this page).
[Programs](PROGRAMS.md) explains agents, DSPy's own tools and which model answers;
[the notebook](../examples/compare_methods.ipynb) shows `run` and its result.
"""

METHODS_SHOWN = {
    "Agent": ("forward", "acall", "set_lm", "save", "load"),
    "RunResult": ("headline", "scores", "report", "to_pandas", "analysis"),
}
"""Class to the members that are shown."""


def build_api_page() -> str:
    """Return the whole page in Markdown."""
    rsso_dspy = import_module("rsso_dspy")
    parts = [START]
    for name in sorted(rsso_dspy.__all__, key=str.lower):
        if not name.startswith("__"):
            parts += _describe(f"rsso_dspy.{name}", getattr(rsso_dspy, name), "##")
            for member in METHODS_SHOWN.get(name, ()):
                found = inspect.getattr_static(getattr(rsso_dspy, name), member, None)
                parts += _describe(f"{name}.{member}", getattr(found, "fget", None) or found, "###")
    return "\n".join(parts).rstrip() + "\n"


def _describe(name: str, found: Any, level: str) -> Iterator[str]:
    """Yield heading, signature and docstring of one name; of a table, its keys."""
    found = getattr(found, "func", found)  # of a cached property
    if isinstance(found, dict):
        yield f"{level} `{name}`\n\nBy name: {', '.join(f'`{key}`' for key in found)}.\n"
    elif inspect.getdoc(found) and (inspect.isclass(found) or inspect.isroutine(found)):
        yield f"{level} `{name}`\n\n```text\n{_format_signature(name, found)}\n```\n\n{inspect.getdoc(found)}\n"


def _format_signature(name: str, found: Any) -> str:
    """Return name and parameters, one a line where they are many."""
    signature = inspect.signature(found.__init__ if inspect.isclass(found) else found)
    shown = [re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", str(each)) for each in signature.parameters.values()]
    plain = [each for each in shown if each != "self"]
    short = name.removeprefix("rsso_dspy.")
    one = f"{short}({', '.join(plain)})"
    return one if len(one) <= 100 else f"{short}(\n" + "".join(f"    {each},\n" for each in plain) + ")"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(build_api_page(), encoding="utf-8")
