"""The constitution as a value and as a memory."""

import json
from types import SimpleNamespace

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.memory import constitution
from rsso_dspy.memory.constitution import CATEGORIES, Constitution, ConstitutionMemory, ConstitutionSettings
from rsso_dspy.memory.texts import clean_text
from rsso_dspy.programs.constitution_writer import ConstitutionWriter
from rsso_dspy.records import State, Step, Trajectory, Variant
from tests.live import Engine, model, says
from tests.memory.memory_cases import Answer, error, fact, left, lend, show_states

BOIL, FREEZE = Variant("boil", 3, "train"), Variant("freeze", 1, "train")
SEEN = State("seen", "a room", "nothing")
DOORS = fact("Doors open.")


def steps(count: int) -> list[Step]:
    return [Step(f"act {n}", f"act {n}", SEEN, 0, 0, True) for n in range(count)]


class Scripted:
    """A writer whose answers are given, each once; what it was asked for, and after how many steps."""

    def __init__(self, *answers, summaries=(), symbolic=False, given=(), summaries_of="joint", **settings):
        self.answers, self.summaries = list(answers), list(summaries)
        self.asked, self.options, self.summarized = [], [], []
        world = SimpleNamespace(lessons=lambda _, steps: self.say(len(steps)), rules_of_thumb=given, render=show_states)
        writing = "symbolic" if symbolic else "neural"
        chosen = ConstitutionSettings(**settings, summaries=summaries_of)
        self.memory = ConstitutionMemory(lend(self.ask, writing=writing, environment=world, constitution=chosen))

    def say(self, asked):
        self.asked.append(asked)
        return self.answers.pop(0) if self.answers else []

    def ask(self, _name, method="", *, known, categories, play=None, examples="", **options):  # noqa: ARG002
        if method:
            self.summarized.append((categories, options))
            said = self.summaries.pop(0) if self.summaries else constitution.condense_rules(known)
        else:
            self.options.append(options)
            joint = self.memory.settings.prompts == "joint"
            said = self.say(len(play.steps) if joint else "".join(categories))
        return None if said is None else Answer(lessons=said)

    @property
    def rules(self) -> list[str]:
        return [rule["text"] for rule in self.memory.snapshot()["rules"]]


def play(memory, count: int, variant: Variant = BOIL, trial: int = 1, learn: bool = True):
    """An episode; what stood in the prompt of each step, and the counts."""
    memory.begin_trial(variant, "task")
    shown = []
    for n in range(count):
        shown.append(memory.recall([SEEN], []))
        if n < count - 1:
            memory.observe([SEEN] * (n + 2), steps(n + 1))
    ended = Trajectory(variant, trial, "task", SEEN, 0, tuple(steps(count)), "budget")
    return shown, memory.learn(ended) if learn else None


def test_rules_are_written_every_r_freq_steps_read_from_the_next_step_on_and_lasting_ones_stay():
    script = Scripted([DOORS, error("x failed", "do y"), left("Found z.")], [left("Done z.")])
    shown, counts = play(script.memory, 25)
    assert script.asked == [10, 20]
    assert [recall.text for recall in shown[:10]] == [""] * 10
    assert "Doors open." in shown[10].text
    assert "Mistake: x failed. Instead: do y" in shown[10].text
    assert [shown[10].progress, shown[20].progress] == ["- Found z.", "- Done z."]
    assert shown[20].text == shown[10].text
    assert (counts["calls"], counts["written"], counts["held"]) == (2, 2, 2)
    (first, *_), _ = play(script.memory, 3, FREEZE)
    assert (first.text, first.progress) == (shown[10].text, "")
    again = Scripted().memory
    again.restore(json.loads(json.dumps(script.memory.snapshot())))
    assert again.snapshot() == script.memory.snapshot()


def test_an_episode_that_is_cut_short_leaves_nothing():
    script = Scripted([DOORS], [DOORS])
    play(script.memory, 12, learn=False)
    assert script.rules == []
    play(script.memory, 12)
    assert script.rules == ["Doors open."]
    assert script.memory.snapshot()["rules"][0]["count"] == 1


@pytest.mark.parametrize(
    ("answers", "counts"), [((None, [DOORS]), (1, 1, 0, 1)), (([DOORS], [fact("doors open!")]), (0, 1, 1, 1))]
)
def test_malformed_answers_and_what_is_said_again_are_counted(answers, counts):
    _, counted = play(Scripted(*answers).memory, 25)
    assert tuple(counted[name] for name in ("malformed", "written", "again", "held")) == counts


def test_a_summary_comes_every_s_freq_tasks_and_trials_of_one_variant_in_a_row_are_one_task():
    facts = [[fact(f"Fact {n} about thing {n}.")] for n in range(4)]
    script = Scripted(*facts, summaries=[[fact("One summary."), error("x", "y")]], s_freq=2, categories=("abstract",))
    played = [(BOIL, 1), (BOIL, 2), (FREEZE, 1), (BOIL, 1), (FREEZE, 2)]
    assert [play(script.memory, 12, *each)[1]["summaries"] for each in played] == [0, 0, 1, 0, 1]
    assert script.rules[0] == "One summary.", "a category that is left out comes back with no summary"


def book(*texts: str) -> Constitution:
    return Constitution().with_lessons([fact(text) for text in texts], "boil", "boil::3")


def test_a_summary_merges_rules_and_drops_what_it_does_not_hold():
    before = book("The stove heats a pot.", "The stove heats a pan.", "Bees fly far away.")
    after = before.apply_summary([fact("The stove heats a pot or a pan."), fact("New: look.")], "boil::9")
    assert after.edits[3:] == ("merged", "written", "dropped")
    merged, new = after.rules
    assert (merged.id, merged.count, merged.task, merged.source) == ("A4", 2, "boil", "boil::3")
    assert (new.id, new.count, new.task, new.source) == ("A5", 1, "", "boil::9")
    before = book("Doors open.", "It is not in.")
    after = before.apply_summary([fact("It is not in."), fact("Doors open.")], "boil::9")
    assert (after.rules[::-1], after.edits) == (before.rules, before.edits), "what stays word for word keeps its id"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Doors\n open. ", "Doors open."),
        ("ok [[ ## task ## ]] Focus on the shovel.", "ok  task  Focus on the shovel."),
        ("\ud83d oops", "? oops"),
        ("None.", ""),
        (None, ""),
        ("x" * 900, "x" * 500),
    ],
)
def test_what_is_said_is_one_short_printable_line_without_field_marks(text, read):
    assert clean_text(text) == read


def test_a_bound_brings_the_summary_early_and_what_is_still_too_much_is_dropped():
    script = Scripted([fact(f"Fact {n} of kind {n}{n}.") for n in range(6)], max_rules=4)
    _, counts = play(script.memory, 12)
    assert (counts["summaries"], counts["dropped"]) == (1, 2)
    assert script.rules == [f"Fact {n} of kind {n}{n}." for n in range(2, 6)]
    script = Scripted([fact(f"Rule number {n} {'word ' * 30}") for n in range(20)], max_chars=1000)
    play(script.memory, 12)
    assert 0 < len(script.memory.constitution.text) <= 1000


@pytest.mark.parametrize("dropped", CATEGORIES)
def test_a_category_can_be_left_out(dropped):
    kept = tuple(category for category in CATEGORIES if category != dropped)
    memory = Scripted([DOORS, error("x failed", "do y"), left("Found z.")], categories=kept).memory
    play(memory, 11, learn=False)
    assert {rule.lesson.category for rule in memory.constitution.rules} == set(kept)


def test_patterns_are_asked_after_every_step_the_last_one_too_and_cost_no_call():
    script = Scripted([DOORS], [], [], [], [error("x", "do y")], symbolic=True, given=[fact("Given.")])
    shown, counts = play(script.memory, 5)
    assert script.asked == [1, 2, 3, 4, 5]
    assert "Given." in shown[0].text
    assert "Doors open." in shown[1].text
    assert script.rules == ["Given.", "Doors open.", "x"]
    assert counts["calls"] == 0


def test_a_memory_without_a_writer_reads_and_never_changes():
    held, memory = book("Doors open."), ConstitutionMemory(lend())
    memory.restore({**held.dump(), "tasks": 3})
    before = memory.snapshot()
    shown, _ = play(memory, 25)
    assert {recall.items for recall in shown} == {held.items}
    assert memory.snapshot() == before


@pytest.mark.parametrize(
    ("categories", "at_end", "asked"),
    [
        (CATEGORIES, True, ["abstract", "error", "progress"] * 2 + ["abstract", "error"]),
        (CATEGORIES, False, ["abstract", "error", "progress"] * 2),
        (("error", "progress"), True, ["error", "progress"] * 2 + ["error"]),
    ],
)
def test_each_category_may_be_asked_for_in_a_call_of_its_own(categories, at_end, asked):
    answers = {"abstract": [fact("one abstract")], "error": None, "progress": [left("more")]}
    settings = {"r_freq": 2, "at_end": at_end, "prompts": "separate", "categories": categories}
    script = Scripted(*(answers[category] for category in asked), **settings)
    _, counts = play(script.memory, 5)
    assert script.asked == asked
    assert counts["calls"] == len(asked) == script.memory.settings.count_writings(5)
    assert counts["malformed"] == asked.count("error")
    assert len(script.rules) == ("abstract" in categories)


def test_abstract_and_error_rules_may_be_summarized_in_two_calls():
    answers = ([DOORS, error("x failed", "do y")], [fact("Doors open wide.")], None)
    script = Scripted(answers[0], summaries=answers[1:], s_freq=1, summaries_of="separate")
    _, counts = play(script.memory, 12)
    assert [categories for categories, _ in script.summarized] == [("abstract",), ("error",)]
    assert script.rules == ["Doors open wide.", "x failed"], "what no summary holds stays"
    assert (counts["summaries"], counts["malformed"], counts["merged"]) == (1, 1, 1)
    assert script.memory.settings.count_summaries(1) == 2


BEES, WALLS = fact("Bees fly far away."), fact("Walls are hard.")


@pytest.mark.parametrize(
    ("agreement", "samples", "held", "malformed"),
    [
        ("majority", ([DOORS, BEES], [fact("All doors open."), WALLS], [BEES]), ["Doors open.", BEES.text], 0),
        ("majority", ([DOORS], None, [WALLS]), [], 1),
        ("majority", (None, None, None), [], 3),
        ("consistent", ([BEES], [DOORS, WALLS], [WALLS, DOORS, BEES]), [WALLS.text, "Doors open.", BEES.text], 0),
        ("consistent", (None, [], [DOORS]), [], 1),
    ],
)
def test_several_samples_are_settled_by_what_they_agree_on(agreement, samples, held, malformed):
    script = Scripted(*samples, samples=3, agreement=agreement)
    _, counts = play(script.memory, 12)
    assert script.options == [{"sample": 0}, {"sample": 1}, {"sample": 2}]
    assert (script.rules, counts["calls"], counts["malformed"]) == (held, 3, malformed)
    assert script.memory.settings.count_writings(12) == 3


RANKED = [fact("Priority 2: walls are hard."), fact("Doors open."), fact("Priority 1: look around.")]


@pytest.mark.parametrize(("asked", "order"), [(False, [0, 1, 2]), (True, [2, 0, 1])])
def test_priorities_that_are_asked_for_decide_what_is_read_first_and_kept(asked, order):
    script = Scripted(RANKED, priorities=asked)
    shown, _ = play(script.memory, 12)
    assert shown[-1].items == tuple(RANKED[place].text for place in order)
    assert script.options == [{"priorities": True} if asked else {}]
    script = Scripted(RANKED, priorities=asked, max_rules=2)
    shown, _ = play(script.memory, 12)
    assert set(shown[-1].items) == {RANKED[place].text for place in (order[:2] if asked else (1, 2))}
    assert script.summarized == [(("abstract", "error"), {"priorities": True} if asked else {})]


def test_a_prompt_may_hold_the_rules_that_are_nearest_to_the_task_alone():
    script = Scripted([BEES, DOORS, fact("Open a door by its handle."), WALLS], relevant=2)
    script.memory.begin_trial(BOIL, "open doors with a handle")
    script.memory.observe([SEEN] * 11, steps(10))
    assert script.memory.recall([SEEN], []).items == ("Doors open.", "Open a door by its handle.")
    assert len(script.memory.constitution.rules) == 4, "what is left out is kept"


def test_detours_are_asked_for_and_kept_with_the_shorter_way():
    """OmniReflect, 2.2.2: the efficiency of a trajectory is judged too (Table 17, the prompt for errors)."""
    detour = {"mistake": "Walked round by the hall.", "solution": "Teleport to the kitchen."}
    engine = Engine(lambda _: says(abstract_rules="[]", error_rules=json.dumps([detour]), progress_rules="[]"))
    writer = ConstitutionWriter()
    memory = ConstitutionMemory(
        lend(lambda _, **asked: writer(**asked), writing="neural", constitution=ConstitutionSettings(r_freq=2))
    )

    with dspy.context(lm=model(engine), adapter=ChatAdapter()):
        shown, _ = play(memory, 3)

    assert "in fewer, pair the detour that was taken with the shorter way" in " ".join(engine.prompts[0].split())
    assert "Mistake: Walked round by the hall. Instead: Teleport to the kitchen." in shown[2].text
