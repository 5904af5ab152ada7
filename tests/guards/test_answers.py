"""What is read of an answer stays equal: the parser may get smaller, not other."""

from pathlib import Path

from tests.guards import answers
from tests.guards.recordings import list_difference, read_lines


def test_every_answer_is_read_as_it_was():
    rows = read_lines("answers", Path(__file__).parent)
    assert len(rows) > 2000
    assert sum("malformed" in row["read"] for row in rows) > 30
    assert sum("repaired" in row["read"] for row in rows) > 800
    wrong = []
    for row in rows:
        now = answers.read(row)
        if now != row["read"]:
            said = [f"{row['form']} {', '.join(row['fields'])}: {row['answer'][:200]!r}"]
            wrong += ["\n".join([*said, *list_difference(row["read"], now)])]
    assert not wrong, f"{len(wrong)} of {len(rows)} answers are read otherwise\n" + "\n".join(wrong[:5])
