"""A memory file in Markdown becomes rules, one for each item of its lists."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsso_dspy.errors import UsageError
from rsso_dspy.memory.formats import read_constitution, split_document
from rsso_dspy.memory.markdown_rules import split_rules
from tests.cli.conftest import rsso

__all__ = ["rsso"]

EXAMPLES = Path(__file__).parents[2] / "examples/house_rules"

FILE = """\
---
paths: "**/*.py"
---
# Working here

This project is built with care.

- Never push to `main`.

## Tests

1. Run them with
   `make test`.
2. Python:
   - use uv
   - **never** pip:

     ```
     uv add NAME
     ```

| when | what |
|---|---|
| always | ask |

```sh
make all
```

### Style:

* last
"""


def test_an_item_is_a_rule_after_its_heading_and_the_items_above_it():
    split = split_rules(FILE)

    assert split.rules == (
        "Never push to `main`.",
        "Tests: Run them with `make test`.",
        "Tests: Python: use uv",
        "Tests: Python: **never** pip: uv add NAME",
        "Style: last",
    )
    assert split.left_out == ("This project is built with care.", "| when | what |", "```sh")


@pytest.mark.parametrize("text", ["", "no list", "# A title\n\n    code\n", "-\n-\n"])
def test_a_text_without_items_has_no_rules(text):
    assert split_rules(text).rules == ()


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=30), min_size=1, max_size=20))
def test_plain_items_stay_as_they_are_in_their_order(items):
    assert split_rules("\n".join(f"- {item}" for item in items)).rules == tuple(items)


@pytest.mark.parametrize("name", ["one", "two", "three", "dev", "fillers"])
def test_rules_by_hand_of_the_examples_are_split_line_by_line(name):
    text = (EXAMPLES / f"{name}.md").read_text(encoding="utf-8")
    assert split_rules(text).rules == tuple(line[2:] for line in text.splitlines() if line.startswith("- "))


def test_the_rules_are_a_constitution_that_is_read_again(tmp_path):
    source = tmp_path / "AGENTS.md"
    source.write_text(FILE, encoding="utf-8")

    book, left_out = split_document(source)
    file = tmp_path / "rules.json"
    file.write_text(book.to_json(), encoding="utf-8")

    assert len(left_out) == 3
    assert read_constitution(file).constitution.items == split_rules(FILE).rules
    rows = json.loads(file.read_text())["rules"]
    assert {row["source"] for row in rows} == {"written by hand"}
    assert all(int(after["id"][1:]) == int(before["id"][1:]) + 1 for before, after in pairwise(rows))


def test_an_item_that_says_nothing_is_left_out_by_name(tmp_path, rsso):
    source = tmp_path / "AGENTS.md"
    source.write_text("- Use pnpm alone.\n- None\n- n/a\n- Run make first.\n", encoding="utf-8")

    book, left_out = split_document(source)
    code, out, _ = rsso("constitution", "split", source, "-o", tmp_path / "rules.json")

    assert book.constitution.items == ("Use pnpm alone.", "Run make first.")
    assert tuple(left_out) == ("None", "n/a")
    assert (code, "2 parts that hold no rule left out, from 'None' on" in " ".join(out.split())) == (0, True)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("AGENTS.md", "- None\n- n/a", "holds no list item that says something: write a rule behind each dash"),
        ("AGENTS.md", "Only prose.", "AGENTS.md holds no list: write each rule on a line of its own"),
        ("AGENTS.md", "", "AGENTS.md is empty"),
        ("AGENTS.md", f"- {'x' * 501}", "has 501 characters, and a rule has 500 at most; make it shorter, or several"),
        ("AGENTS.md", "- two\u0000", "cannot read the constitution"),
        ("rules.json", "{", "rules.json is damaged"),
        (
            "rules.json",
            '{"kind": "rsso-dspy constitution", "schema": 1, "rules": []}',
            "rules.json holds rules already: read it as it is",
        ),
    ],
)
def test_what_cannot_be_split_is_refused_with_the_remedy(tmp_path, name, text, said):
    source = tmp_path / name
    source.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        split_document(source)
