"""The constitution as a value, as a memory and as a file: what is refused by name, and what a person may edit."""

import json

import pytest

from rsso_dspy.errors import UsageError
from rsso_dspy.memory import clean_text
from rsso_dspy.memory.constitution import (
    CATEGORIES,
    Constitution,
    ConstitutionMemory,
    ConstitutionSettings,
    RuleWriter,
    condense_rules,
)
from rsso_dspy.memory.constitution.file import ConstitutionFile, read_constitution
from rsso_dspy.records import State, Step, Trajectory, Variant
from tests.memory.memory_cases import error, fact, left

BOIL = Variant("boil", 3, "train")
FREEZE = Variant("freeze", 1, "train")


def state(text: str = "seen") -> State:
    return State(text, "a room", "nothing")


def steps(count: int) -> list[Step]:
    return [Step(f"act {n}", f"act {n}", state(), 0, 0, True) for n in range(count)]


def trajectory(count: int, variant: Variant = BOIL, trial: int = 1) -> Trajectory:
    return Trajectory(variant, trial, "task", state(), 0, tuple(steps(count)), "budget")


class Scripted:
    """A writer whose answers are given, each once; counts what it was asked."""

    def __init__(self, *answers, summaries=()):
        self.answers = list(answers)
        self.summaries = list(summaries)
        self.asked = []
        self.known = []

    def write(self, play, known, categories):  # noqa: ARG002
        self.asked.append(len(play.steps))
        self.known.append(known.text)
        return self.answers.pop(0) if self.answers else []

    def summarize(self, book):
        self.known.append(book.text)
        return self.summaries.pop(0) if self.summaries else condense_rules(book)

    def writer(self, **more):
        return RuleWriter(self.write, self.summarize, **more)


def play(memory: ConstitutionMemory, count: int, variant: Variant = BOIL, trial: int = 1, learn: bool = True):
    """An episode; what stood in the prompt of each step, and the counts."""
    memory.begin_trial(variant, "task")
    shown = []
    for n in range(count):
        shown.append(memory.recall([state()], []))
        if n < count - 1:
            memory.observe([state()] * (n + 2), steps(n + 1))
    return shown, memory.learn(trajectory(count, variant, trial)) if learn else None


def test_rules_are_written_every_r_freq_steps_and_read_from_the_next_step_on():
    script = Scripted([fact("Doors open."), error("x failed", "do y"), left("Found z.")], [left("Done z.")])
    memory = ConstitutionMemory(script.writer(), ConstitutionSettings(r_freq=10))
    shown, counts = play(memory, 25)
    assert script.asked == [10, 20]
    assert [recall.text for recall in shown[:10]] == [""] * 10
    assert "Doors open." in shown[10].text
    assert "Mistake: x failed. Instead: do y" in shown[10].text
    assert shown[10].progress == "- Found z."
    assert shown[20].progress == "- Done z."
    assert shown[20].text == shown[10].text
    assert counts["calls"] == 2
    assert counts["written"] == 2
    assert counts["held"] == 2


def test_progress_is_gone_after_the_episode_and_lasting_rules_stay():
    memory = ConstitutionMemory(Scripted([fact("Doors open."), left("Found z.")]).writer())
    play(memory, 12)
    shown, _ = play(memory, 3, FREEZE)
    assert shown[0].progress == ""
    assert "Doors open." in shown[0].text


def test_an_episode_that_is_cut_short_leaves_nothing():
    memory = ConstitutionMemory(Scripted([fact("Doors open.")], [fact("Doors open.")]).writer())
    play(memory, 12, learn=False)
    before = memory.snapshot()
    assert before["rules"] == []
    play(memory, 12)
    assert [rule["text"] for rule in memory.snapshot()["rules"]] == ["Doors open."]
    assert [edit["what"] for edit in memory.snapshot()["edits"]] == ["add"]


def test_a_malformed_answer_is_counted_and_skipped():
    memory = ConstitutionMemory(Scripted(None, [fact("Doors open.")]).writer())
    _, counts = play(memory, 25)
    assert (counts["malformed"], counts["written"]) == (1, 1)


def test_what_is_said_again_is_counted_and_not_written_twice():
    memory = ConstitutionMemory(Scripted([fact("Doors open.")], [fact("doors open!")]).writer())
    _, counts = play(memory, 25)
    assert (counts["written"], counts["again"], counts["held"]) == (1, 1, 1)
    assert memory.snapshot()["rules"][0]["count"] == 2


def test_a_summary_comes_every_s_freq_tasks_and_several_trials_are_one_task():
    script = Scripted(*[[fact(f"Fact {n} about thing {n}.")] for n in range(4)], summaries=[[fact("One summary.")]])
    memory = ConstitutionMemory(script.writer(), ConstitutionSettings(s_freq=2))
    assert play(memory, 12)[1]["summaries"] == 0
    assert play(memory, 12, trial=2)[1]["summaries"] == 0
    assert play(memory, 12, FREEZE)[1]["summaries"] == 1
    rules = memory.snapshot()["rules"]
    assert [rule["text"] for rule in rules] == ["One summary."]


def test_the_log_holds_every_merger_and_every_drop():
    book = Constitution().with_lessons(
        [fact("The stove heats a pot."), fact("The stove heats a pan."), fact("Bees fly far away.")], "boil", "boil::3"
    )
    after = book.apply_summary([fact("The stove heats a pot or a pan.")], "boil::9")
    merge, drop = after.edits[3:]
    assert (merge.what, merge.of, merge.id) == ("merge", ("A1", "A2"), "A4")
    assert (drop.what, drop.id, drop.why) == ("drop", "A3", "summary")
    assert after.rules[0].count == 2
    assert after.rules[0].task == "boil"
    assert after.rules[0].source == "boil::3"


def test_a_rule_that_a_summary_keeps_word_for_word_keeps_its_id():
    book = Constitution().with_lessons([fact("Doors open."), fact("Water boils at 100 degrees.")], "boil", "boil::3")
    after = book.apply_summary([fact("Water boils at 100 degrees."), fact("Doors open.")], "boil::9")
    assert [rule.id for rule in after.rules] == ["A2", "A1"]
    assert after.edits == book.edits


def test_a_summary_brings_no_category_back_that_is_left_out():
    script = Scripted([fact("Doors open.")], summaries=[[fact("Doors open."), error("x failed", "do y")]])
    memory = ConstitutionMemory(script.writer(), ConstitutionSettings(s_freq=1, categories=("abstract", "progress")))
    play(memory, 12)
    assert {rule.lesson.category for rule in memory.constitution.rules} == {"abstract"}


def test_a_rule_of_small_words_alone_survives_a_summary_that_keeps_it():
    book = Constitution().with_lessons([fact("It is not in."), fact("It is not in!")], "boil", "boil::3")
    after = book.apply_summary([fact("It is not in.")], "boil::9")
    assert after == book


def test_what_the_last_step_teaches_is_learnt():
    script = Scripted(*[[]] * 4, [error("focused on the wrong thing", "focus on what the task names")])
    memory = ConstitutionMemory(script.writer(conditional=True))
    play(memory, 5)
    assert [rule["text"] for rule in memory.snapshot()["rules"]] == ["focused on the wrong thing"]


def test_a_task_is_counted_when_the_variant_changes_whatever_the_trial_is_called():
    memory = ConstitutionMemory(Scripted([fact("Doors open.")]).writer(), ConstitutionSettings(s_freq=2))
    counts = [play(memory, 12, variant, trial)[1]["summaries"] for trial, variant in enumerate([BOIL, FREEZE] * 2, 1)]
    assert counts == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Doors\n open. ", "Doors open."),
        ("ok [[ ## task ## ]] Focus on the shovel.", "ok  task  Focus on the shovel."),
        ("\x1b[31mred\x07", "[31mred"),
        ("\ud83d oops", "? oops"),
        ("None.", ""),
        (None, ""),
        ("x" * 900, "x" * 500),
    ],
)
def test_what_is_said_is_one_short_printable_line_without_field_marks(text, read):
    assert clean_text(text) == read


def test_a_bound_brings_the_summary_early_and_what_is_still_too_much_is_dropped():
    script = Scripted([fact(f"Fact {n} of kind {n}{n}.") for n in range(6)])
    memory = ConstitutionMemory(script.writer(), ConstitutionSettings(max_rules=4))
    _, counts = play(memory, 12)
    assert counts["summaries"] == 1
    assert counts["dropped"] == 2
    assert [rule["text"] for rule in memory.snapshot()["rules"]] == [f"Fact {n} of kind {n}{n}." for n in range(2, 6)]


def test_the_text_is_bounded():
    script = Scripted([fact(f"Rule number {n} {'word ' * 30}") for n in range(20)])
    memory = ConstitutionMemory(script.writer(), ConstitutionSettings(max_chars=1000))
    play(memory, 12)
    assert 0 < len(memory.constitution.text) <= 1000


@pytest.mark.parametrize("dropped", CATEGORIES)
def test_a_category_can_be_left_out(dropped):
    kept = tuple(category for category in CATEGORIES if category != dropped)
    memory = ConstitutionMemory(
        Scripted([fact("Doors open."), error("x failed", "do y"), left("Found z.")]).writer(),
        ConstitutionSettings(categories=kept),
    )
    memory.begin_trial(BOIL, "task")
    memory.observe([state()] * 11, steps(10))
    assert {rule.lesson.category for rule in memory.constitution.rules} == set(kept)


def test_a_conditional_writer_is_asked_after_every_step_and_costs_no_call():
    script = Scripted([fact("Doors open.")])
    memory = ConstitutionMemory(script.writer(conditional=True, given=lambda: [fact("Given.")]))
    shown, counts = play(memory, 5)
    assert script.asked == [1, 2, 3, 4, 5]
    assert "Given." in shown[0].text
    assert "Doors open." in shown[1].text
    assert counts["calls"] == 0


def test_a_memory_without_a_writer_reads_and_never_changes():
    book = Constitution().with_lessons([fact("Doors open.")], "boil", "boil::3")
    memory = ConstitutionMemory()
    memory.restore({**book.dump(), "tasks": 3})
    before = memory.snapshot()
    shown, _ = play(memory, 25)
    assert {recall.text for recall in shown} == {book.text}
    assert memory.snapshot() == before


def test_a_snapshot_restores_the_memory():
    script = Scripted([fact("Doors open."), error("x failed", "do y")], [fact("Water boils.")])
    memory, again = ConstitutionMemory(script.writer()), ConstitutionMemory(Scripted().writer())
    play(memory, 25)
    data = json.loads(json.dumps(memory.snapshot()))
    again.restore(data)
    assert again.snapshot() == memory.snapshot()


@pytest.mark.parametrize(
    ("categories", "at_end", "asked"),
    [
        (CATEGORIES, True, ["abstract", "error", "progress"] * 2 + ["abstract", "error"]),
        (CATEGORIES, False, ["abstract", "error", "progress"] * 2),
        (("error", "progress"), True, ["error", "progress"] * 2 + ["error"]),
    ],
)
def test_each_category_may_be_asked_for_in_a_call_of_its_own(categories, at_end, asked):
    settings = ConstitutionSettings(r_freq=2, at_end=at_end, prompts="separate", categories=categories)
    said = []

    def write(play, known, categories):  # noqa: ARG001
        (category,) = categories
        said.append(category)
        return None if category == "error" else [fact(f"one {category}") if category == "abstract" else left("more")]

    writer = RuleWriter(write, lambda _: None)
    memory = ConstitutionMemory(writer, settings)
    memory.begin_trial(BOIL, "task")
    for count in range(1, 5):
        memory.observe([state()] * (count + 1), steps(count))
    counts = memory.learn(trajectory(5))
    assert said == asked
    assert counts["calls"] == len(asked) == settings.count_writings(5)
    assert counts["malformed"] == asked.count("error")
    assert len(memory.constitution.rules) == ("abstract" in categories)


# As a file.

RULES = '{"kind": "rsso-dspy constitution", "schema": 1, "rules": '
DOUBLE = '{"id": "A1", "category": "abstract", "text": "t"}'


def test_a_file_round_trips(tmp_path):
    book = ConstitutionFile(
        Constitution().with_lessons([fact("Doors open."), error("x failed", "do y")], "boil", "boil::3"),
        {"variants": ["boil::3"]},
        ("an example",),
    )
    file = tmp_path / "book.json"
    file.write_text(book.to_json(), encoding="utf-8")
    assert read_constitution(file) == book
    assert read_constitution(file).variants == ("boil::3",)


def test_rules_written_by_hand_need_category_and_text_only(tmp_path):
    file = tmp_path / "book.json"
    rows = [{"category": "abstract", "text": "Doors open."}, {"category": "error", "text": "x", "solution": "y"}]
    file.write_text(json.dumps({"kind": "rsso-dspy constitution", "schema": 1, "rules": rows}))
    book = read_constitution(file).constitution
    assert [rule.id for rule in book.rules] == ["A1", "E2"]
    assert {rule.source for rule in book.rules} == {"written by hand"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ("[]", "is not a constitution"),
        ('{"kind": "rsso-dspy constitution", "schema": 2, "rules": []}', "schema 2"),
        (RULES + "{}}", "is damaged"),
        (RULES + '["x"]}', "rule 1 must be an object"),
        (RULES + '[{"category": "x"}]}', "category 'x'"),
        (RULES + '[{"category": "abstract"}]}', "no text"),
        (RULES + '[{"id": "X1", "category": "abstract", "text": "t"}]}', "id 'X1'"),
        (RULES + '[{"category": "abstract", "text": "t", "count": 0}]}', "count 0"),
        (RULES + f"[{2 * (', ' + DOUBLE)}]}}".replace("[, ", "["), "two rules the same id"),
        (RULES + '[{"category": "error", "text": "x", "solution": ""}]}', "no solution"),
        (RULES + '[{"category": "error", "text": "x", "solution": "y", "source": 5}]}', "source must be text"),
        (RULES + '[{"category": "error", "text": "x", "solution": "y", "task": ["a"]}]}', "task must be text"),
        (RULES + '[], "edits": [{"x": 1}]}', "is damaged"),
        (RULES + '[], "edits": [{"id": "A"}]}', "is damaged"),
        (RULES + '[], "numbered": Infinity}', ""),
        (RULES + '[], "provenance": {"variants": 5}}', "variants in provenance"),
    ],
)
def test_a_file_that_is_no_constitution_is_refused_by_name(tmp_path, content, said):
    file = tmp_path / "book.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"book\.json") as refused:
        read_constitution(file)
    assert said in str(refused.value)


def test_a_number_that_was_given_is_not_given_again(tmp_path):
    file = tmp_path / "book.json"
    file.write_text(RULES + '[{"category": "abstract", "text": "t"}], "edits": [{"what": "drop", "id": "A7"}]}')
    assert [rule.id for rule in read_constitution(file).constitution.rules] == ["A8"]
