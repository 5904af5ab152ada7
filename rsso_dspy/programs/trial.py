"""What stands around the steps of one trial: an environment on loan, the ledger of its calls, the texts that memories
put into prompts, the calls that DSPy's trace keeps, and a second chance after a simulator that died."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dspy
from dspy.dsp.utils.settings import main_thread_config
from dspy.utils.exceptions import LMError

from rsso_dspy.environments import (
    Environment,
    Transition,
    choose_interface,
    find_free_form,
    list_verbs,
    name_environment,
)
from rsso_dspy.errors import BackendFailure, EnvironmentFailure, JavaMissing, SimulatorDied, Stopped
from rsso_dspy.memory import Memory, Recall
from rsso_dspy.playing import get_playing, is_stopping, playing
from rsso_dspy.programs.methods import Scaffold, changes_each_step
from rsso_dspy.programs.roles import Answer, Roles, TrialLedger, first_line, read_answer
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Failure, State, Step, Trajectory, TrialResult, Variant
from rsso_dspy.regions import ABOUT, EXAMPLES, PLANS, POSSIBLE, PROGRESS, REGIONS, TEMPLATES, list_items
from rsso_dspy.signatures.layouts import find_arrangement

NO_ACTION = "Nothing happened: your answer held no action."

ROLLOUTS_PER_SEED = 1000  # trial t of seed s asks under rollout number 1000 s + t: repeats differ, replays do not

Recalls = Mapping[str, Recall]  # what memories recall, by region


class TrialRun:
    """The trial of a variant that follows `results`."""

    environment: Environment
    conversation: "Conversation"
    budget: int  # how many steps it may have

    def __init__(
        self, roles: Roles, memories: Iterable[Memory], variant: Variant, seed: int, results: Sequence[TrialResult]
    ):
        runtime = roles.runtime
        self.roles = roles
        self.rules = runtime.rules
        self.variant = variant
        self.memories = tuple(memories)
        self.number = len(results) + 1
        self.shown: dict[str, str] = {}  # texts that memories put into prompts, each distinct one once
        self.offers_subgoals = False  # whether the actor is asked for one: once it is, to the end of the trial
        unit = f"{roles.method.name} {variant.key}"
        self.ledger = TrialLedger(runtime.spend, unit, self.number, runtime.recall)

        is_retry = any(result.trajectory and result.trajectory.variant == variant for result in results)
        rollout = seed * ROLLOUTS_PER_SEED + self.number
        roles.begin_trial(self.ledger, rollout, is_retry)

    def run(
        self, play: Callable[["TrialRun"], Trajectory], learn: Callable[["TrialRun", Trajectory], dict[str, Any]]
    ) -> TrialResult:
        """Play, then learn. A simulator that dies is replaced and the trial played again once; what still fails is
        recorded as an error, which is not a score."""
        fields: dict[str, Any] = {}
        outer = find_callers_trace()  # a trial that fails adds nothing to it
        is_traced = outer is not None or not get_playing().session_models_only  # modules such as dspy.Refine need one

        for self.ledger.attempt in (0, 1):
            self._forget_attempt()
            trajectory: Trajectory | None = None
            calls: list[TraceEntry] = []
            trace = calls if is_traced else None
            try:
                with dspy.context(trace=trace), self.roles.runtime.environments.lease() as environment:
                    self._borrow(environment)
                    trajectory = play(self)
                    # Still lent: roles ask it for the words of this variant, which another trial would change.
                    learnt = learn(self, trajectory)
                    fields = {"learnt": learnt, "shown": self.shown}
                if outer is not None:
                    outer.extend(prune_calls(calls, trajectory, self.roles.modules["actor"]))
                break
            except JavaMissing:
                raise  # it would hit every unit
            except (EnvironmentFailure, BackendFailure, LMError) as error:
                trajectory = None
                fields = {"failure": Failure.of(error)}
                if not isinstance(error, SimulatorDied):
                    break

        return TrialResult(self.number, trajectory, **fields, **self.ledger.to_result_fields())

    def _forget_attempt(self) -> None:
        self.ledger.step = 0
        self.shown = {}
        self.offers_subgoals = False

    def _borrow(self, environment: Environment) -> None:
        self.budget = self.roles.runtime.budget(self.variant)
        self.environment = environment
        self.roles.environment = environment
        choose_interface(environment, self.rules.interface)
        self.conversation = Conversation(environment, self.rules, self.roles.method.scaffold)

    def begin_step(self, number: int) -> None:
        """Book calls under this step from now on. Raises `Stopped` once the run is stopped or the call cancelled."""
        if is_stopping():
            raise Stopped
        self.ledger.step = number

    def choose_action(
        self, states: Sequence[State], steps: Sequence[Step], plans: Recalls, recalled: Recalls
    ) -> Answer | None:
        """Ask the actor for the next action, in the conversation so far; None when the answer was malformed."""
        regions = self.show_world() | self.show_regions(plans, recalled)
        each_step = self._list_changing_regions()
        changing = {name: value for name, value in regions.items() if name in each_step}
        turn = self.conversation.begin_turn(states, steps, **changing)
        steady = {name: value for name, value in regions.items() if value and name not in each_step}

        targets = [target for recall in recalled.values() for target in recall.targets]
        if targets:
            self.offers_subgoals = True
        unasked = self._list_unasked_outputs()

        possible = frozenset(turn.get(POSSIBLE, ()))
        free_form = find_free_form(self.environment, possible)
        verbs = list_verbs(self.environment)
        answered_before = self.ledger.count_answers("actor")
        arrangement = replace(self.conversation.arrangement, reads_plans=bool(steady.get(PLANS)))
        with playing(unasked=unasked, verbs=verbs, possible=possible, free_form=free_form):
            prediction = self.roles.ask_actor(arrangement, history=self.conversation.history, **steady, **turn)

        answer: Answer | None = None
        if prediction is not None:
            answer = read_answer(prediction, targets, free_form)
            if not answer.action:
                self.roles.reject("actor", prediction)
                answer = None

        answers = self.ledger.count_answers("actor") - answered_before
        self.roles.runtime.hear_answers(answers, answer is not None)
        self.conversation.end_turn(turn, answer, unasked)
        return answer

    def _list_changing_regions(self) -> set[str]:
        """The regions whose texts may change from step to step."""
        regions = {PROGRESS}
        for memory in self.memories:
            if changes_each_step(type(memory)):
                regions.add(memory.region)
        return regions

    def _list_unasked_outputs(self) -> frozenset[str]:
        """The outputs that the actor is not asked for in this step."""
        unasked = set()
        if not self.rules.thoughts:
            unasked.add("thought")
        if not self.offers_subgoals and self.rules.layout == "conversation":
            unasked.add("subgoal")
        return frozenset(unasked)

    def take_step(
        self, answer: Answer | None, states: Sequence[State], steps: Sequence[Step], recalled: Recalls
    ) -> tuple[Step, Transition | None]:
        """The step that an answer amounts to: of a malformed one a step that does nothing and costs budget."""
        items = tuple(item for recall in recalled.values() for item in recall.ids)
        if answer is None:
            return self._skip_step(states, steps, items), None

        transition = self.environment.step(answer.action)
        step = Step(
            proposed=answer.action,
            action=transition.action,
            state=transition.state,
            reward=transition.reward,
            score=transition.score,
            understood=transition.understood,
            reasoning=answer.thought,
            subgoal=answer.subgoal,
            recalled=items,
            rejected=answer.rejected,
            asked_back=transition.asked_back,
            no_effect=transition.no_effect,
            cut=answer.cut,
            outputs=dict(answer.outputs),
        )
        return step, transition

    def _skip_step(self, states: Sequence[State], steps: Sequence[Step], items: tuple[str, ...]) -> Step:
        score = steps[-1].score if steps else self.environment.points_at_reset
        unread_answers = self.ledger.kept.get("actor") or [""]
        return Step(
            proposed="",
            action="",
            state=replace(states[-1], observation=NO_ACTION),
            reward=0,
            score=score,
            understood=False,
            recalled=items,
            malformed=True,
            unread=unread_answers[-1],
        )

    def show_world(self) -> dict[str, Any]:
        """What prompts say of the environment. Action templates are noted if they differ from the implied ones; where
        the possible actions are listed, they are left out. Solved examples are noted always."""
        inputs: dict[str, Any] = {ABOUT: self.roles.runtime.about, "task": self.environment.task}

        examples = getattr(self.environment, EXAMPLES, ())
        if examples:
            inputs[EXAMPLES] = list(examples)
            self.shown[EXAMPLES] = list_items(examples)

        if self.rules.action_choice == "free":
            templates = self.environment.action_templates
            inputs[TEMPLATES] = templates
            if self.roles.runtime.implied_templates not in (None, templates):
                self.shown[TEMPLATES] = templates
        return inputs

    def show_regions(self, plans: Recalls, recalled: Recalls) -> dict[str, Any]:
        """What memories put into the prompt of this step, by region; their texts are noted."""
        regions: dict[str, Any] = {}
        for name, recall in recalled.items():
            value = plans[name].value or recall.value
            is_listed = name in REGIONS and REGIONS[name].kind is not str
            if is_listed and isinstance(value, str):
                value = [value] if value else []
            regions[name] = value
        regions[PROGRESS] = "\n".join(recall.progress for recall in recalled.values() if recall.progress)

        self._note_change(PROGRESS, regions[PROGRESS])
        for name, plan in plans.items():
            if plan.text:
                self.shown[name] = plan.text
        for name, recall in recalled.items():
            if recall.text and recall.ids:
                self.shown[f"{name}:{','.join(recall.ids)}"] = recall.text
            elif not plans[name].text:
                self._note_change(name, recall.text)
        return regions

    def _note_change(self, region: str, text: str) -> None:
        if text != self._find_last_note(region):
            self.shown[f"{region}@{self.ledger.step}"] = text

    def _find_last_note(self, region: str) -> str:
        for name, text in reversed(self.shown.items()):
            if name.startswith(f"{region}@"):
                return text
        return ""


# What an actor and its environment have said.

MOST_LISTED = 100  # maximum number of actions listed in a prompt
LONGEST_CONVERSATION = 60_000  # characters, about 15,000 tokens; a longer one loses its older half, to be cached again
FORGOTTEN = "What was said before is left out."
REFUSED = "The last action was refused. Take one that is possible."
WITHOUT_EFFECT = "That changed nothing. Take another action."
AGAIN = "{action}: tried here {times} times now, and nothing changed. Take another action."
SEEN_AGAIN = "{action}: tried here {times} times now, and nothing that you see changed."

Turn = dict[str, Any]  # the inputs of one step, the outputs of the answer to it, and the answer's text as `said`


class Conversation:
    """What an actor and its environment have said in a trial. In the layout `conversation` nothing that was said ever
    changes; in the others it is made anew from the last states, or from all."""

    def __init__(self, environment: Environment, rules: TrialRules, scaffold: Scaffold = "flat"):
        self._environment = environment
        self._rules = rules
        self.arrangement = find_arrangement(rules.layout, scaffold, rules.in_system)
        self._turns: list[Turn] = []
        self._shown: dict[str, Any] = {}
        self._situation: tuple[str, ...] = ()
        self._tried: dict[tuple[str, ...], list[str]] = {}  # the actions that were taken, by situation

    def begin_turn(self, states: Sequence[State], steps: Sequence[Step], **changing: Any) -> Turn:
        """Return the inputs of the next step; ``states[i + 1]`` follows ``steps[i]``. Of the texts `changing` from step
        to step, those are left out that the conversation holds already."""
        self._follow(states[-1], steps)

        inputs: Turn = {}
        if self._rules.layout != "conversation":
            self._render_window(states, steps)
            inputs["observation"] = self._turns.pop()["observation"]
            inputs |= changing
        else:
            self._forget()
            new = {name: value for name, value in changing.items() if value and value != self._shown.get(name)}
            self._shown |= new
            inputs["observation"] = self._environment.render(states)[-1]
            inputs["notice"] = self._find_notice(states, steps)
            inputs |= new

        inputs["possible_actions"] = self._list_actions()
        return {name: value for name, value in inputs.items() if value or name == "observation"}

    def end_turn(self, turn: Turn, answer: Answer | None, unasked: Collection[str] = ()) -> None:
        """Add a step's inputs and the answer, which stands in the history as it was said; what could not be read is
        left out of it."""
        if answer is None:
            self._turns.append({**turn, "said": ""})
            return

        outputs = {"thought": answer.thought, "subgoal": answer.subgoal or "none", "action": answer.action}
        reply = {name: text for name, text in outputs.items() if name not in unasked}
        if answer.said:
            reply["said"] = answer.said
        self._turns.append({**turn, **reply})

    @property
    def history(self) -> dspy.History:
        return dspy.History(messages=list(self._turns))

    def _render_window(self, states: Sequence[State], steps: Sequence[Step]) -> None:
        """Make the turns anew from the last states, as the sources show them; or from all that are not too long."""
        window = self.arrangement.states
        first = 0
        if window is not None:
            first = max(0, len(states) - window)

        self._turns = [{"observation": text} for text in self._environment.render(states[first:])]
        for turn, step in zip(self._turns, steps[first:], strict=False):
            turn |= self._tell_answer(step)

        while window is None and self._forget():
            pass

    def _tell_answer(self, step: Step) -> dict[str, str]:
        """Return what the history shows of an answer; nothing of one that could not be read, since a model imitates
        what stands there as its own."""
        answer = {}
        if self._rules.thoughts and step.reasoning:
            answer["thought"] = step.reasoning
        if step.subgoal:
            answer["subgoal"] = step.subgoal
        if step.action:
            answer["action"] = step.action
        return answer

    def _forget(self) -> bool:
        """Drop the older half of what is too long. Return whether there was one."""
        length = sum(len(str(value)) for turn in self._turns for value in turn.values())
        if length <= LONGEST_CONVERSATION:
            return False

        half = len(self._turns) // 2
        del self._turns[:half]
        self._turns[0] = {**self._turns[0], "notice": FORGOTTEN}
        self._shown = {}
        return half > 0

    def _follow(self, present: State, steps: Sequence[Step]) -> None:
        """Note the last action, and the situation it led to: the same one where it was refused or had no effect."""
        if steps and not steps[-1].malformed:
            self._tried.setdefault(self._situation, []).append(steps[-1].action)

        has_effect = not steps or (steps[-1].understood and not steps[-1].no_effect)
        if has_effect and present.look:
            self._situation = (present.look, present.inventory)
        elif has_effect:
            self._situation = (present.observation,)

    def _find_notice(self, states: Sequence[State], steps: Sequence[Step]) -> str:
        if not steps:
            return ""
        step = steps[-1]
        if step.malformed or step.asked_back:
            return ""
        if not step.understood:
            return REFUSED
        if not step.no_effect and states[-1] != states[-2]:
            return ""

        time_may_pass = bool(states[-1].look) and not step.no_effect  # what is not in view may have changed
        times = self._tried[self._situation].count(step.action)
        if times > 1:
            sentence = SEEN_AGAIN if time_may_pass else AGAIN
            return sentence.format(action=step.action, times=times)
        return "" if time_may_pass else WITHOUT_EFFECT

    def _list_actions(self) -> list[str]:
        """Return the actions that can be taken now, those last that were taken in the very same situation before; none
        where the protocol lists none. Raises `EnvironmentFailure` if none or too many are possible."""
        if self._rules.action_choice == "free":
            return []

        list_possible: Callable[[], Sequence[str]] = getattr(self._environment, "admissible_actions", list)
        actions = tuple(dict.fromkeys(list_possible()))
        if not 0 < len(actions) <= MOST_LISTED:
            raise EnvironmentFailure(
                f"{name_environment(self._environment)} lists {len(actions):,} possible actions, but action_choice = "
                f"listed supports 1 to {MOST_LISTED:,}"
            )

        tried_here = self._tried.get(self._situation, [])
        return sorted(actions, key=tried_here.count)


# DSPy's trace. Optimizers sample about one call per predictor and rollout from it, so it keeps only the informative
# ones of the actor's hundreds of calls, and every call of the other roles.

TraceEntry = tuple[dspy.Predict, dict[str, Any], dspy.Prediction]  # predictor, inputs, outputs
TURNS_KEPT = 3  # turns of a conversation in an entry of the trace: its steps would repeat each other's beginnings


def find_callers_trace() -> list[TraceEntry] | None:
    """Return the trace that the caller opened, as DSPy's optimizers do. None for the process-wide one, which is never
    emptied: it would keep the prompts of thousands of steps."""
    trace: list[TraceEntry] | None = dspy.settings.trace
    return None if trace is main_thread_config.get("trace") else trace


def prune_calls(calls: Sequence[TraceEntry], trajectory: Trajectory, actor: dspy.Module) -> list[TraceEntry]:
    """Return the calls in order, with the inputs that were in the prompt, but of the actor's only those of steps that
    changed the score, were not understood, repeated an action with the same result, or were the last, and answers
    without an action. Calls of an actor that asks several times a step go with the one that answers with the action. An
    unparsable answer leaves no call."""
    acting = {id(predictor) for predictor in actor.predictors()}
    informative = iter(find_informative_steps(trajectory))

    entries: list[TraceEntry] = []
    leading: list[TraceEntry] = []  # calls of the actor ahead of the one that answers with the action
    for predictor, inputs, outputs in calls:
        entry = (predictor, shorten_inputs(inputs), outputs)
        is_acting = id(predictor) in acting
        if is_acting and "action" not in predictor.signature.output_fields:
            leading.append(entry)
            continue

        has_action = bool(first_line(outputs.get("action")))
        is_informative = True
        if is_acting and has_action:
            is_informative = next(informative, True)
        if is_informative:
            entries += [*leading, entry]
        leading = []
    return entries + leading


def find_informative_steps(trajectory: Trajectory) -> list[bool]:
    """Return, of each step whose action could be read, whether an optimizer learns from it."""
    steps = [step for step in trajectory.steps if not step.malformed]
    moves = [(step.action, step.state.observation) for step in steps]

    informative = []
    for place, step in enumerate(steps):
        is_repeated = moves[place] in moves[:place]
        is_last = step is steps[-1]
        informative.append(bool(step.reward) or not step.understood or is_repeated or is_last)
    return informative


def shorten_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs that were in the prompt, of a history the last turns."""
    shortened = {name: value for name, value in inputs.items() if value}
    for name, value in shortened.items():
        if isinstance(value, dspy.History):
            shortened[name] = dspy.History(messages=value.messages[-TURNS_KEPT:])
    return shortened
