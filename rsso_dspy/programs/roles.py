"""The roles of an agent: what its loop and its memories ask of its modules, who answers, and what it costs. The model
is the predictor's own (`agent.set_lm`), otherwise the user's (`dspy.context(lm=...)`, `dspy.configure(lm=...)`),
otherwise that of the role in the configured backend."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dspy
from dspy.adapters.utils import serialize_for_json
from dspy.dsp.utils.settings import main_thread_config
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.usage_tracker import UsageTracker

from rsso_dspy.answers.actions import GIVEN, ActionForm, read_action
from rsso_dspy.environments import Environment, get_place_reader
from rsso_dspy.errors import UsageError
from rsso_dspy.loops import describe_loops
from rsso_dspy.memory.reflections import ASKING_MORE
from rsso_dspy.playing import get_playing, playing
from rsso_dspy.programs.methods import MODULES, Method, load_memory
from rsso_dspy.programs.render import render_transcript, tell_outcome
from rsso_dspy.programs.replaced import join_listed_texts, needs_dspys_format, select_inputs
from rsso_dspy.programs.runtime import Runtime, Spend, choose_retry_temperature
from rsso_dspy.records import Trajectory, Usage, read_usage
from rsso_dspy.signatures.layouts import CONVERSATION, Arrangement, send_arranged

STOCK = "reflection_distiller"  # a configuration asks for it, not a row: the package's own where an agent has none


class Roles:
    """The modules of an agent, asked by its loop and its memories: their `Services`. Local to one `Agent.forward`."""

    environment: Environment
    ledger: "TrialLedger"

    def __init__(self, modules: Mapping[str, dspy.Module], method: Method, runtime: Runtime):
        self.modules = modules
        self.method = method
        self.runtime = runtime
        self.handed_on = frozenset(load_memory(name).region for name in method.streamed)

    def begin_trial(self, ledger: "TrialLedger", rollout: int, retry: bool = False) -> None:
        """Ask under this rollout number and book in this ledger. `retry`: the variant was played before."""
        self.ledger = ledger
        self.rollout = rollout
        self.is_retry = retry

    def ask(self, name: str, method: str = "", /, **inputs: Any) -> dspy.Prediction | None:
        """What a module, or a method of it, answers; None when the answer was malformed."""
        return self._ask(name, method, inputs)

    def ask_actor(self, arrangement: Arrangement, /, **inputs: Any) -> dspy.Prediction | None:
        """What the actor answers to inputs that stand in this arrangement; None when the answer was malformed."""
        return self._ask("actor", "", inputs, arrangement)

    def _ask(
        self, name: str, method: str, inputs: Mapping[str, Any], arrangement: Arrangement = CONVERSATION
    ) -> dspy.Prediction | None:
        if name not in self.modules and name != STOCK:
            raise UsageError(
                f"a memory of {self.method.name} asks for the {name}, which this method has not: name it in the class "
                f"of the memory, asks = ({name!r},)"
            )
        module = self.modules.get(name) or MODULES[name].make()
        role = _name_role(name)
        settings = {"lm": self._find_model(role), "adapter": self._find_adapter(module)}
        with (
            self.ledger.book_under_role(role),
            dspy.context(**settings),
            send_arranged(arrangement),
            playing(rollout=self.rollout),
        ):
            try:
                answer: dspy.Prediction = (getattr(module, method) if method else module)(
                    **select_inputs(name, module, inputs)
                )
                return join_listed_texts(name, answer)
            except AdapterParseError as error:
                self.ledger.unread(str(error.lm_response or ""))
                self.ledger.count_malformed(role)
                return None

    def _find_adapter(self, module: dspy.Module) -> Any:
        """The adapter under which a module is asked: in a run or a compile the one that it sets; otherwise the user's,
        or where the user has set none, that of the backend, which is no format for tools, code and images."""
        adapter = dspy.settings.adapter
        if get_playing().session_models_only:
            return adapter
        if adapter is None and needs_dspys_format(module):
            adapter = dspy.ChatAdapter()
        return self.runtime.listen(adapter)

    def _find_model(self, role: str) -> dspy.BaseLM:
        """The model of a role; for a retrying actor at the protocol's retry temperature, and without one at that of
        `choose_retry_temperature` for a model that the user set."""
        users = find_users_lm()
        is_retry = role == "actor" and self.is_retry
        warmer = self.runtime.rules.retry_temperature if is_retry else None
        if users:
            if is_retry and warmer is None:
                usual = users.kwargs
                warmer = choose_retry_temperature(users.model, usual.get("temperature"), usual.get("top_k"))
            return users if warmer is None else users.copy(temperature=warmer)
        return self.runtime.lm(role, self.rollout, *(() if warmer is None else (warmer,)))

    def reject(self, name: str, said: dspy.Prediction) -> None:
        texts = (f"{field}: {value}" for field, value in said.items() if value and isinstance(value, str | list))
        self.ledger.count_malformed(_name_role(name), "\n".join(texts))

    def tell_transcript(self, trajectory: Trajectory) -> str:
        return render_transcript(trajectory, self.environment.render)

    def tell_outcome(self, trajectory: Trajectory) -> str:
        return tell_outcome(trajectory)

    def list_reflection_fields(self, improvements: frozenset[str], trajectory: Trajectory) -> dict[str, Any]:
        """What a call of the reflector is told besides: examples, a signature with the fields of these improvements,
        the loops; after a success, another signature. Raises `UsageError` when the reflector was replaced by a module
        that cannot be told so."""
        from rsso_dspy.signatures.memory_writers import ADDED_FIELDS, DrawPattern, add_reflection_fields

        additions = improvements.intersection(ADDED_FIELDS)
        module = self.modules["reflector"]
        settings = self.runtime.reflections
        examples = settings.examples if settings else ()
        inputs: dict[str, Any] = {}
        if "loops" in additions:
            inputs["loops"] = describe_loops(trajectory.steps, get_place_reader(self.environment))
        if isinstance(module, dspy.Predict):
            if trajectory.solved:
                return {"signature": DrawPattern, "demos": []}
            if settings and not module.demos and not examples and not additions & ASKING_MORE:
                examples = settings.own_examples
            inputs |= {"demos": [*module.demos, *examples]} if examples else {}
            return inputs | ({"signature": add_reflection_fields(module.signature, additions)} if additions else {})
        signatures = [predictor.signature for predictor in module.predictors()]
        lacks = additions and all(
            add_reflection_fields(signature, additions) is not signature for signature in signatures
        )
        if lacks or examples or trajectory.solved:
            raise UsageError(
                f"this {type(module).__name__} cannot be the reflector: use dspy.Predict, or leave out "
                "memory.reflections.examples and successes, and add to its signature "
                f"{', '.join(field for addition in sorted(additions) for field in ADDED_FIELDS[addition]) or 'nothing'}"
            )
        return inputs


def _name_role(module: str) -> str:
    return "actor" if module == "actor" else MODULES[module].role


def find_users_lm() -> dspy.BaseLM | None:
    """The model that the user set in DSPy, also after the session was opened, which DSPy's contexts hide; None if only
    the session's models may answer."""
    return None if get_playing().session_models_only else dspy.settings.lm or main_thread_config.get("lm")


LONGEST_KEPT, LONGEST_REJECTED = 2000, 500  # maximum characters kept of an unreadable answer; of a subgoal not offered
AGAIN = "\n[asked again]\n"  # separates two unreadable answers to one question
SEEDS = 2**31  # number of possible seeds of requests


class TrialLedger(UsageTracker):
    """Calls and tokens of one trial by role. As ``get_playing().ledger`` it also receives failed requests, repaired
    answers, sent settings and the names of models, and as DSPy's usage tracker what a request used. `spend` is called
    with each entry at once, or `recall` if it was paid for before. `place` names the unit, for seeds. Step and attempt
    are set during play."""

    def __init__(self, spend: Spend, place: str = "", trial: int = 0, recall: Spend = lambda _role, _usage: None):
        super().__init__()
        self.trial, self.place = trial, place
        self.step = 0  # the actor's current step, or the last one
        self.attempt = 0  # 1 if the trial is played again because its simulator died
        self.speaker = ""  # the role that is asked
        self.is_paid = False  # whether the last answer was paid for: a line of this trial, which was cut off, held it
        self.failures: Counter[str] = Counter()  # failed requests by kind
        self.kept: dict[str, list[str]] = {}  # unreadable answers by role
        self._sent: dict[str, dict[str, float]] = {}
        self._answered: dict[str, set[str]] = {}
        self._draws: Counter[str] = Counter()
        self.was_cut = self._is_cut = False  # whether the last answer was cut off, or too long; and the next one
        self.was_trimmed = False  # whether nothing was read of the line in which the last answer was cut off
        self.is_used_up = False  # whether the limit of tokens went by without a word of the last answer
        self._is_undercounted = False  # whether the next one's server counted far fewer tokens than were sent
        self._unread: list[str] = []
        self._usage: dict[str, Usage] = {}
        self._outer: Any = None
        self._spend, self._recall = spend, recall

    @contextmanager
    def book_under_role(self, role: str) -> Iterator[None]:
        self.speaker, self._unread, self._outer = role, [], dspy.settings.usage_tracker
        self.was_cut = self.was_trimmed = self.is_used_up = False
        with dspy.context(usage_tracker=self), playing(ledger=self):
            yield

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        noted = Usage(truncated=int(self._is_cut), undercounted=int(self._is_undercounted))
        self._add_entry(read_usage(usage_entry) + noted)
        self.was_cut = self._is_cut
        self._is_cut = False
        self._is_undercounted = False
        if self._outer is not None:
            self._outer.add_usage(lm, usage_entry)

    def note_truncated(self, is_used_up: bool = False) -> None:
        self._is_cut = True  # the answer whose usage follows
        self.is_used_up = is_used_up

    def note_undercounted(self) -> None:
        self._is_undercounted = True  # the answer whose usage follows

    def note_settings(self, settings: Mapping[str, float]) -> None:
        self._sent.setdefault(self.speaker, dict(settings))  # of a role's first request

    def note_model(self, name: str) -> None:
        self._answered.setdefault(self.speaker, set()).add(name)

    def draw_seed(self, rollout: int) -> int:
        """Return the seed of the next request, derived from rollout, unit and role; each request adds one."""
        drawn = hashlib.sha256(f"{rollout} {self.place} {self.speaker}".encode()).digest()
        self._draws[self.speaker] += 1
        return (int.from_bytes(drawn[:4], "big") + self._draws[self.speaker] - 1) % SEEDS

    def count_failure(self, kind: str) -> None:
        self.failures[kind] += 1
        self._add_entry(Usage(failed=1))

    def count_repaired(self) -> None:
        self._add_entry(Usage(repaired=1), repaired=True)

    def unread(self, text: str) -> None:
        """Keep an unreadable answer of this call."""
        if text and text not in self._unread:
            self._unread.append(text)

    def count_malformed(self, role: str, said: str = "") -> None:
        """Count a call without a readable answer: `said`, or the answers passed to `unread` since it began."""
        if texts := [said] if said else self._unread:
            self.kept.setdefault(role, []).append(AGAIN.join(text[:LONGEST_KEPT] for text in texts))
        self._unread = []
        self.speaker = role
        self._add_entry(Usage(malformed=1), malformed=True)

    def _add_entry(self, entry: Usage, **read: bool) -> None:
        """Book an entry, and write into the log of the unit how an answer was read."""
        self._usage[self.speaker] = self._usage.get(self.speaker, Usage()) + entry
        (self._recall if self.is_paid else self._spend)(self.speaker, entry)
        calls = get_playing().calls
        if read and calls is not None and not self.is_paid:
            calls.note_read(**read)

    def count_answers(self, role: str) -> int:
        return self._usage.get(role, Usage()).calls

    def usage_by_role(self) -> dict[str, Usage]:
        return dict(sorted(self._usage.items()))

    def to_result_fields(self) -> dict[str, Any]:
        return {
            "replayed": self.attempt,
            "usage": self.usage_by_role(),
            "failures": dict(sorted(self.failures.items())),
            "sent": dict(sorted(self._sent.items())),
            "answered": {role: tuple(sorted(names)) for role, names in sorted(self._answered.items())},
            "unread": {role: tuple(texts) for role, texts in sorted(self.kept.items()) if role != "actor"},
        }


_NO_SUBGOAL = re.compile(r"\W*(?:none|null|nil|n/?a|no(?: current)? subgoal|not applicable|nothing)?\W*", re.I)
_NUMBERED = re.compile(r"(?:(?:current )?subgoal|option|skill)? ?(\d+)(?: (.*))?")


@dataclass(frozen=True, slots=True)
class Answer:
    action: str
    thought: str
    subgoal: str | None  # the target of a recalled skill
    rejected: str = ""  # the given subgoal if it was not offered
    said: str = ""  # the whole text, as the model wrote it
    cut: str = ""  # what was given as the action, if anything of it was cut off
    outputs: Mapping[str, Any] = field(
        default_factory=dict
    )  # the other outputs of an actor of one's own, as JSON holds


READ = ("thought", "subgoal", "action", "said", GIVEN)
"""Outputs that the package's own actors have."""


def read_answer(prediction: dspy.Prediction, targets: Sequence[str], free_form: ActionForm | None = None) -> Answer:
    """Read what an actor answered. `free_form`: what is known of actions that may be anything."""
    subgoal_text = str(prediction.get("subgoal") or "").strip()
    subgoal = choose_target(subgoal_text, targets)
    rejected = "" if subgoal is not None or _NO_SUBGOAL.fullmatch(subgoal_text) else subgoal_text[:LONGEST_REJECTED]
    other_outputs = {name: value for name, value in prediction.items() if name not in READ}
    thought = prediction.get("thought") or other_outputs.pop("reasoning", "") or ""
    raw_action = prediction.get(GIVEN)
    if free_form is None:
        action = first_line(prediction.action)
    elif raw_action is not None:
        action = str(prediction.action)  # our adapter has read it
    else:
        action = read_action(str(prediction.action or ""), free_form)
    raw_action = str(prediction.action or "") if raw_action is None else raw_action
    return Answer(
        action,
        thought,
        subgoal,
        rejected,
        said=prediction.get("said") or "",
        cut=raw_action if raw_action.strip() != action else "",
        outputs={name: serialize_for_json(value) for name, value in other_outputs.items()},
    )


def choose_target(text: str, targets: Sequence[str]) -> str | None:
    """The target that the text names, by its words, after `Subgoal n:` or not, or by its number alone; None if none."""
    by_words = {" ".join(split_words(target)): target for target in reversed(targets)}
    words = " ".join(split_words(text))
    if words in by_words or (numbered := _NUMBERED.fullmatch(words)) is None:
        return by_words.get(words)
    if numbered[2] is not None:
        return by_words.get(numbered[2])
    return targets[int(numbered[1]) - 1] if 1 <= int(numbered[1]) <= len(targets) else None


def split_words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+", text.lower()))


def first_line(text: Any) -> str:
    """Return the first line that is not empty, without quotes, marks of lists and code, and a final period."""
    lines = (re.sub(r"^\s*(?:[-*>•]\s+|\d+[.)]\s+)*", "", line) for line in str(text or "").splitlines())
    return next(filter(None, (line.strip("`\"'*_“” \t").rstrip(".!").strip() for line in lines)), "")
