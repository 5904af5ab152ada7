"""What messages say."""

from io import BytesIO, TextIOWrapper

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.cli.process import RedactedStream
from rsso_dspy.errors import UnknownName

OPTIMIZERS = ("bootstrap", "gepa", "mipro", "none")
MANY = tuple(f"task-{number}" for number in range(20))


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("gepaa", OPTIMIZERS, f"did you mean gepa? Known: {', '.join(OPTIMIZERS)}."),
        ("nope", OPTIMIZERS, f"did you mean none? Known: {', '.join(OPTIMIZERS)}."),
        ("evolution", OPTIMIZERS, f"known: {', '.join(OPTIMIZERS)}."),
        ("rayy", ("ray",), "did you mean ray?"),
        ("frist", ("sso", "first"), "did you mean first? Known: first, sso."),
        ("zzz", MANY, f"known: {', '.join(sorted(MANY))}."),
        ("task-77", MANY, "did you mean task-7 or task-17 or task-9?"),
    ],
)
def test_an_unknown_name_is_offered_what_is_near_and_all_where_they_are_few(name, known, said):
    assert str(UnknownName("thing", name, known, "Or none.")) == f"unknown thing {name!r}: {said} Or none."


@pytest.mark.parametrize(
    "words",
    [
        ("report", "examples/recorded/babyai-demo"),
        ("run", "--replay", "examples/recorded/babyai-demo"),
        ("show", "examples/recorded/babyai-demo"),
        ("run", "--config", "examples/recorded/babyai-2x2.toml"),
        ("compile", "--candidates", "examples/candidates.toml"),
        ("constitution", "show", "examples/c.json"),
    ],
)
def test_a_missing_file_of_the_examples_is_said_to_be_in_the_repository(words, tmp_path, monkeypatch):
    """As where the package was installed from a wheel."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code != 0
    assert "`examples` is a folder of the project's repository" in str(done.exception)


def test_a_terminal_that_lacks_a_letter_is_shown_its_number():
    """As under LC_ALL=C without UTF-8."""
    stream = TextIOWrapper(buffer := BytesIO(), encoding="ascii")
    RedactedStream(stream).write("run: runs/\xe9")
    stream.flush()
    assert buffer.getvalue() == rb"run: runs/\xe9"
