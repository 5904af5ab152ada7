"""The one file of the guards that knows the package's classes: it plays what a recording describes, reads an answer as
the adapter does, and computes the report's figures, all in the neutral form of `recordings.py`.

    play(job, folder, answer, tell)

`answer` is asked at the model, where a request is final: DSPy's own client is replaced, and nothing of the package.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from dspy.clients.engines.lm15_engine import LM15Engine
from dspy.lm15 import Config as GenerationConfig
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from rsso_dspy.config import CompileOptions, Config, load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import UsageError
from rsso_dspy.executor import Event, EventStream, TrialFinished, UnitFinished
from rsso_dspy.offline import Explorer
from rsso_dspy.optimize.calibration import draw_calibration
from rsso_dspy.optimize.compile import build_request, compile_agent
from rsso_dspy.optimize.constitution import plan_constitution_build
from rsso_dspy.optimize.rollouts import RolloutFinished
from rsso_dspy.optimize.teacher import choose_teacher
from rsso_dspy.playing import get_playing
from rsso_dspy.pricing import make_price_lookup
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import Failure, Source, State, Step, TrainingRecord, Trajectory, TrialResult, UnitRecord, Variant
from rsso_dspy.records import Usage as Spent
from rsso_dspy.report.analysis import RunRecords, analyze, serialize_analysis
from rsso_dspy.report.tables import build_table_files
from rsso_dspy.runs import plan_run
from rsso_dspy.sessions import session
from rsso_dspy.store.commands import RunSpec
from rsso_dspy.store.run_folder import Store

Data = dict[str, Any]
Answer = Callable[[Data], Data]
"""Takes a call's role, messages and settings; returns its answer and usage, tokens of input and output."""
Tell = Callable[[Data], None]
"""Takes every finished trial, and other results, as they come."""

ROLES = ("actor", "reflector", "verbalizer", "advisor", "proposer")
MODEL = {
    "backend": "guard",
    "backends.guard.base_url": "http://127.0.0.1:9/v1",  # nothing is sent
    "backends.guard.temperature": 0.5,
    "backends.guard.model": "openai/actor",
    **{f"backends.guard.roles.{role}.model": f"openai/{role}" for role in ROLES[1:]},
}
"""A backend whose models are called like their roles, so that a request says which role sent it."""


def load(settings: Mapping[str, Any]) -> Config:
    """The configuration of these settings; one that is None is left out."""
    pairs = ((key, value) for key, value in {**MODEL, **settings}.items() if value is not None)
    return load_config(overrides=[f"{key}={write_value(value)}" for key, value in pairs])


def write_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def play(job: Data, folder: Path, answer: Answer, tell: Tell) -> None:
    """Play a job: a run of units, a compile, or the build of a constitution. The same job with the same folder goes on
    where it was cut off."""
    kinds = {"run": play_run, "compile": play_compile, "constitution": play_constitution}
    with answering(answer, folder / "cache"):
        kinds[job["kind"]](job, load(job["settings"]), folder, tell)


def is_playable(job: Data) -> bool:
    """Whether the job's benchmark is installed here."""
    try:
        get_benchmark(job["settings"].get("benchmark", "scienceworld"))
    except UsageError:
        return False
    return True


# The model.


@contextmanager
def answering(answer: Answer, cache: Path) -> Iterator[None]:
    """Have `answer` asked in place of every server inside the block, with a cache folder of its own: demonstrations are
    those whose length is known, and a used cache knows more."""

    def complete(_: LM15Engine, request: Request) -> Response:
        said = answer(describe_request(request))
        sent, spoken = said["usage"]
        usage = Usage(input_tokens=sent, output_tokens=spoken, total_tokens=sent + spoken)
        message = Message.assistant([TextPart(said["answer"])])
        return Response(None, request.model.rpartition("/")[2], message, "stop", usage)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LM15Engine, "complete", complete)
        patch.setenv("RSSO_DSPY_CACHE", str(cache))
        yield


def describe_request(request: Request) -> Data:
    system = request.system
    text = system if isinstance(system, str) else "".join(part.text for part in system or ())
    messages = [{"role": "system", "content": text}] if text else []
    messages += [{"role": each.role, "content": each.text} for each in request.messages]
    settings = {name: value for name, value in asdict(request.config).items() if value not in (None, (), {}, [])}
    return {"role": request.model.rpartition("/")[2], "messages": messages, "settings": settings}


def answer_offline(call: Data) -> str:
    """Return the offline player's answer to a call; only recording asks it. It draws anew in every trial."""
    system, *messages = call["messages"]
    request = Request(
        model="embedded/explorer",
        messages=tuple(Message(each["role"], (TextPart(each["content"]),)) for each in messages),
        system=system["content"],
        config=GenerationConfig(temperature=call["settings"].get("temperature")),
    )
    return Explorer(seed=get_playing().rollout or 0).complete(request).message.text


# Runs.


def play_run(job: Data, config: Config, folder: Path, tell: Tell) -> None:
    out = folder / "run"
    given = {}
    for name, data in job.get("given", {}).items():
        given[name] = folder / f"{name}.json"
        given[name].write_text(json.dumps(data), encoding="utf-8")
    spec = RunSpec(
        methods=tuple(job["methods"]),
        out=out,
        tasks=tuple(job["tasks"]) if "tasks" in job else None,
        variants=tuple(job.get("variants", ())),
        per_task=job.get("per_task"),
        **given,
    )
    run = plan_run(config, spec)
    events = EventStream()
    events.subscribe(Event, lambda event: tell_trial(event, Store(out, read_only=True), tell))
    with session(config) as live:
        run.execute(live, 1, events=events)


def tell_trial(event: Event, store: Store, tell: Tell) -> None:
    if not isinstance(event, TrialFinished):
        return
    record = store.load(event.work, begun=True)
    memories = record.memories if record and event.result.trajectory else {}
    tell({"unit": describe_unit(record) if record else {}, **describe_trial(event.result, memories)})


def play_constitution(job: Data, config: Config, folder: Path, tell: Tell) -> None:
    drawn = draw_calibration(
        job["calib"], job["tasks"], config.seed, config.simplification, config.benchmark_in_data, 0
    )
    built = plan_constitution_build(
        config, drawn.train, job["writer"], folder / "constitution.json", job["explore"], lambda _: None
    )
    events = EventStream()

    def tell_unit(event: UnitFinished) -> None:
        for trial in event.record.trials:
            tell({"unit": describe_unit(event.record), **describe_trial(trial, event.record.memories)})

    events.subscribe(UnitFinished, tell_unit)
    with session(config) as live:
        book = built.run(live, built.make_spend_limit(), events)
    tell({"rules": name_memory("constitution", book.constitution.dump()), "examples": list(book.examples)})


def play_compile(job: Data, config: Config, folder: Path, tell: Tell) -> None:
    drawn = draw_calibration(job["calib"], job["tasks"], config.seed, config.simplification, config.benchmark_in_data)
    with session(config) as live:
        request = build_request(
            Agent(job["method"]).method,
            live.protocol,
            drawn,
            job["optimizer"],
            CompileOptions(trials=job["trials"], steps=job["steps"]),
            job["max_rollouts"],
            seed=config.seed,
            teacher=choose_teacher(job["teacher"], config) if "teacher" in job else None,
        )
        events = EventStream()
        events.subscribe(RolloutFinished, lambda event: tell(describe_rollout(event)))
        compiled = compile_agent(Agent(job["method"]), live, request, 1, events, folder / "compiled.json")
        tell(describe_compiled(compiled.agent(), json.loads((folder / "compiled.json").read_text(encoding="utf-8"))))


def describe_rollout(event: RolloutFinished) -> Data:
    rollout = event.rollout
    return {
        "rollout": rollout.variant.key,
        "candidate": event.candidate.number,
        "placebo": event.candidate.placebo,
        "score": round(rollout.score, 6),
        "trials": [describe_trial(trial, {}) for trial in rollout.trials],
    }


def describe_compiled(agent: Agent, data: Data) -> Data:
    """The program that a compile ends with, and its verdict."""
    state = {
        name: {"instructions": each["signature"]["instructions"], "demos": each["demos"]}
        for name, each in agent.dump_state().items()
        if name != "metadata"
    }
    kept = ("ended_by", "before", "after", "train", "val", "confirm", "rollouts", "lm_calls", "confirmation")
    improved = (data.get("confirmation") or {}).get("verdict") == "confirmed"
    return {"program": state, "improved": improved, **{name: data[name] for name in kept if name in data}}


# The neutral form of units and trials.


def describe_unit(record: UnitRecord | TrainingRecord) -> Data:
    data = {
        "arm": record.arm,
        "method": record.method,
        "program": record.program,
        "seed": record.seed,
        "protocol": record.protocol,
        "models": {role: model for role, model in record.models.items() if model != f"openai/{role}"},
        "backend": record.backend,
        "rule_based": record.rule_based,
        "learnt_on": list(record.learnt_on),
        "sources": [drop_empty(asdict(each) | {"digest": ""}) for each in record.sources],
    }
    if isinstance(record, TrainingRecord):
        return drop_empty({"training": record.task, **data, "budgets": list(record.budgets)})
    variant = record.variant
    where = {"variant": variant.key, "split": variant.split, "simplification": variant.simplification}
    return drop_empty({**where, **data, "budget": record.budget, "trials": record.trials_allowed})


def describe_trial(result: TrialResult, memories: Mapping[str, Any]) -> Data:
    """One trial and what the memories hold after it. What is empty or 0 is left out."""
    played = result.trajectory
    data: Data = {"trial": result.trial, "learnt": {name: drop_empty(each) for name, each in result.learnt.items()}}
    data["usage"] = {role: drop_empty(asdict(each)) for role, each in result.usage.items()}
    data["failure"] = asdict(result.failure) if result.failure else {}
    data |= {"failures": dict(result.failures), "replayed": result.replayed}
    noted = ((region.partition("@"), text) for region, text in result.shown.items())
    data["progress"] = {step: text for (region, _, step), text in noted if region == "progress"}
    if played:
        data |= {
            "of": played.variant.key,
            "task": played.task,
            "outcome": played.outcome,
            "points": played.accumulator,
            "score": played.environment_score,
            "points_at_reset": played.points_at_reset,
            "start": describe_state(played.start),
            "steps": [describe_step(step) for step in played.steps],
        }
    data["memories"] = {name: name_memory(name, snapshot) for name, snapshot in memories.items()}
    return drop_empty(data)


def describe_state(state: State) -> list[str]:
    return [state.observation, state.look, state.inventory]


def describe_step(step: Step) -> Data:
    data = {
        "proposed": step.proposed,
        "action": step.action,
        "state": describe_state(step.state),
        "reward": step.reward,
        "score": step.score,
        "status": find_status(step),
        "reasoning": step.reasoning,
        "subgoal": step.subgoal,
        "said": step.unread or step.rejected,
        "recalled": list(step.recalled),
    }
    return drop_empty(data)


def find_status(step: Step) -> str:
    """One word in place of five marks; "done" is left out."""
    if step.malformed:
        return "unreadable"
    if step.asked_back:
        return "asked-back"
    if not step.understood:
        return "refused"
    return "no-effect" if step.no_effect else ""


def drop_empty(data: Mapping[str, Any]) -> Data:
    return {name: value for name, value in data.items() if value not in (None, "", 0, [], {}, ())}


# The neutral form of memories: texts, ids and counters; no settings and no schema numbers.


def name_memory(name: str, snapshot: Mapping[str, Any]) -> Data:
    named = {"skills": name_skills, "constitution": name_constitution}
    plain = {key: value for key, value in snapshot.items() if key != "schema"}
    return drop_empty(named[name](snapshot) if name in named else plain)


def name_constitution(data: Mapping[str, Any]) -> Data:
    return {"rules": [drop_empty(rule) for rule in data["rules"]]}


def name_skills(data: Mapping[str, Any]) -> Data:
    """The skills ever written, the ids of those in use, and the numbers that chose them. The pool of candidates, which
    is long, is its first rows and a digest."""
    keys = ("id", "name", "summary", "instructions", "target", "windows", "retrieved", "targeted", "beyond")
    pool = [round_numbers(row) for row in data["pool"]]
    return {
        "skills": [
            drop_empty({key: skill.get(key) for key in keys} | {"score": round(skill["scores"]["total"], 6)})
            for skill in data["skills"]
        ],
        "library": data["library"],
        "pieces": [
            [piece["trial"], piece["offset"], len(piece["states"]), [data["texts"][n] for n in piece["actions"]]]
            for piece in data["pieces"]
        ],
        "matched": [data["built"], len(pool), hashlib.sha256(json.dumps(pool).encode()).hexdigest()[:16]],
        "best": pool[:5],
        "selected": [
            [{name: round(value, 6) for name, value in scores.items()}, *row[2:]] for scores, *row in data["selected"]
        ],
        "similarities": {name: [each[0], each[1] // 1000] for name, each in data["similarities"].items()},
        "feedback": [[[event[0], round(event[1], 6), event[2]] for event in trial] for trial in data["feedback"]],
        "answers": data["answers"],
    }


def round_numbers(row: Sequence[Any]) -> list[Any]:
    """A candidate: its score and its similarities to six digits, then its windows."""
    score, state, action, *windows = row
    return [round(score, 6), round(state / 1e9, 6), round(action / 1e9, 6), *windows]


# The report, of units in the neutral form.


def compute_figures(results: Sequence[Data], facts: Data) -> tuple[Data, dict[str, str]]:
    """What `report --json` says of these trials, as JSON data, and every table as CSV by its name. `facts` are what a
    run's folder says beside its units."""
    units: dict[tuple[Any, ...], list[Data]] = {}
    for line in results:
        key = tuple(line["unit"].get(name) for name in ("arm", "training", "variant", "seed"))
        units.setdefault(key, []).append(line)
    made = [(make_record(lines), lines[0]["unit"].get("begun", False)) for lines in units.values()]
    finished = [record for record, begun in made if not begun]
    found = RunRecords(
        [record for record in finished if isinstance(record, UnitRecord)],
        [record for record in finished if isinstance(record, TrainingRecord)],
        [record for record, begun in made if begun],
        [(arm, role, Spent(**usage)) for arm, role, usage in facts.get("abandoned", ())],
        tuple(facts.get("dates", ())),
        {"": facts["missing"]} if facts.get("missing") else {},  # of which arms is not recorded
        models={record.arm: facts.get("models", {}) for record, _ in made},
    )
    analysis = analyze(found, make_price_lookup({}))
    tables = {path.stem: text for path, text in build_table_files(analysis).items() if path.suffix == ".csv"}
    return json.loads(json.dumps(serialize_analysis(analysis))), tables


def make_record(lines: Sequence[Data]) -> UnitRecord | TrainingRecord:
    """The record of the trials of one unit or training."""
    unit = lines[-1]["unit"]
    same = {name: unit.get(name, "") for name in ("protocol", "arm", "method", "program", "backend")}
    same |= {"seed": unit.get("seed", 0), "rule_based": unit.get("rule_based", False)}
    models = {role: unit.get("models", {}).get(role, f"openai/{role}") for role in ROLES}
    same |= {"models": models, "model": models["actor"], "trials": tuple(map(make_trial, lines))}
    same |= {"memories": lines[-1].get("memories", {}), "learnt_on": tuple(unit.get("learnt_on", ()))}
    same |= {"sources": tuple(Source(**source) for source in unit.get("sources", ()))}
    same |= {"provenance": unit.get("provenance", {})}
    if "training" in unit:
        return TrainingRecord(**same, task=unit["training"], budgets=tuple(unit["budgets"]))
    return UnitRecord(**same, variant=make_variant(unit), budget=unit["budget"], trials_allowed=unit.get("trials", 0))


def make_variant(unit: Data, key: str = "") -> Variant:
    task, _, index = (key or unit["variant"]).rpartition("::")
    return Variant(task, int(index), unit.get("split", "train"), unit.get("simplification", ""))


def make_trial(line: Data) -> TrialResult:
    usage = {role: Spent(**each) for role, each in line.get("usage", {}).items()}
    told = {name: line[name] for name in ("learnt", "failures", "replayed") if name in line}
    told["shown"] = {f"progress@{step}": text for step, text in line.get("progress", {}).items()}
    failure = Failure(**line["failure"]) if "failure" in line else None
    if "outcome" not in line:
        return TrialResult(line["trial"], None, usage=usage, failure=failure, **told)
    trajectory = Trajectory(
        make_variant(line["unit"], line["of"]),
        line["trial"],
        line["task"],
        State(*line["start"]),
        line.get("points_at_reset", 0),
        tuple(map(make_step, line.get("steps", ()))),
        line["outcome"],
    )
    return TrialResult(line["trial"], trajectory, usage=usage, failure=failure, **told)


def make_step(data: Data) -> Step:
    status, said = data.get("status"), data.get("said", "")
    return Step(
        data.get("proposed", ""),
        data.get("action", ""),
        State(*data["state"]),
        data.get("reward", 0),
        data.get("score", 0),
        status in (None, "no-effect"),
        data.get("reasoning", ""),
        data.get("subgoal"),
        tuple(data.get("recalled", ())),
        malformed=status == "unreadable",
        unread=said if status == "unreadable" else "",
        rejected="" if status == "unreadable" else said,
        asked_back=status == "asked-back",
        no_effect=status == "no-effect",
    )
