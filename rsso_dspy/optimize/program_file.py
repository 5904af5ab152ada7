"""Reads the file of a compiled program. The whole file is checked before any of it is used.

load("compiled.json")                       # raises UsageError or SplitError, with what to do
derive_program_name("runs/compiled.json")   # "compiled": what it is called in runs and tables
"""

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from rsso_dspy.errors import DamagedFile, SplitError, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.compiled import FILE, KIND, SCHEMA, Compiled
from rsso_dspy.optimize.description import describe_verdict
from rsso_dspy.optimize.program_schema import hash_schema
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import ADDITIONS
from rsso_dspy.programs.state import fingerprint_program, is_plain_state, read_state
from rsso_dspy.records import ZERO_SHOT


def derive_program_name(path: Path | str) -> str:
    """The name of a program in runs and tables: its file's name. Raises `UsageError` for a name that cannot stand in a
    folder name or a comma-separated list, or that is reserved."""
    name = Path(path).stem
    taken = (ZERO_SHOT, *ADDITIONS)
    if not re.fullmatch(r"[\w.-]+", name) or name in taken:
        raise UsageError(
            f"{path}: a compiled program is called after its file, and {name!r} is not a name of letters, digits, '.', "
            f"'_' and '-' other than {', '.join(taken)}; rename the file, or name another"
        )
    return name


def load(path: Path | str) -> Compiled:
    """The compiled program in a file. Raises `UsageError` for a file that is damaged, of another version, made for
    other signatures or changed since, `SplitError` when it was compiled on held-out variants."""
    path = Path(path)
    try:
        data = read_json(path)
    except OSError as error:
        raise UsageError(
            f"cannot read the compiled program {path}: {error.strerror}; `rsso-dspy compile -o FILE` makes one"
        ) from None
    except DamagedFile as error:
        raise UsageError(
            f"{path} is damaged or no compiled program ({error.why}); restore it, or compile again"
        ) from None
    if is_plain_state(data):
        return _load_saved_agent(path)
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UsageError(
            f"{path} is no compiled program; `rsso-dspy compile -o FILE` makes one, and agent.save(FILE) a state"
        )
    if data.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} is of schema version {data.get('schema')}, this program reads {SCHEMA}: "
            "use the rsso-dspy it was made with, or compile again"
        )
    try:
        compiled = FILE.validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path} is damaged ({where}: {first['msg']}); restore it, or compile again") from None
    try:
        _check_compiled(compiled)
    except SplitError as error:
        raise SplitError(f"{path}: {error}") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    return compiled


def load_programs(texts: Sequence[str], unconfirmed: bool = False) -> dict[str, Compiled | None]:
    """The programs of a run by name: `zero-shot`, which is None here, or files. With `unconfirmed`, a candidate that is
    not confirmed plays. Raises `UsageError` when two programs have one name, for a file that would play the program its
    compile started from instead of what it found, and whatever `load` raises."""
    found: dict[str, Compiled | None] = {}
    for text in texts:
        name = text if text == ZERO_SHOT else derive_program_name(text)
        if name in found:
            raise UsageError(
                f"--programs names {name!r} twice: a program has the name of its file; rename one of the files"
            )
        found[name] = None if text == ZERO_SHOT else _select_played(text, load(text), unconfirmed)
    return found


def _select_played(text: str, compiled: Compiled, unconfirmed: bool) -> Compiled:
    if compiled.improved or compiled.is_made_elsewhere:
        return compiled
    if compiled.candidate and unconfirmed:
        return compiled.select_candidate()
    advice = (
        "`rsso-dspy evaluate FILE --candidate` (in Python unconfirmed=True) plays its candidate all the same"
        if compiled.candidate
        else "it holds no candidate; compile again, with a larger --calib, more --max-rollouts or another --optimizer"
    )
    raise UsageError(
        f"{text}: {describe_verdict(compiled)}. Nothing is played, since that would be the program that its compile "
        f"started from: {advice}"
    )


def _load_saved_agent(path: Path) -> Compiled:
    """The program in a file that `agent.save` wrote."""
    saved = read_state(path)
    if not saved.method:
        raise UsageError(
            f"{path} does not say which method it is of: load it into an agent, Agent(METHOD).load(PATH), and save that"
        )
    agent = Agent(saved.method)
    if (missing := agent.predictors_by_name.keys() - saved.predictors.keys()) or (
        saved.predictors.keys() - agent.predictors_by_name.keys()
    ):
        raise UsageError(
            f"{path} does not fit the method {saved.method}"
            + (f": it lacks {', '.join(sorted(missing))}" if missing else "")
            + "; save an agent of that method, with its own modules"
        )
    agent.load_state({name: {**state, "lm": None} for name, state in saved.predictors.items()})
    return Compiled.from_agent(agent)


def _explain_changed_prompts(found: str) -> str:
    return (
        f"its prompts were changed after compiling, so its scores are another program's; restore it, or, to play "
        f'it all the same, write "program": "{found}" into it'
    )


def _check_compiled(compiled: Compiled) -> None:
    if "protocol" not in compiled.identity:
        raise UsageError("it is damaged (identity.protocol is missing); restore it, or compile again")
    of = compiled.benchmark
    if not compiled.is_made_elsewhere:
        given = (compiled.train, compiled.val, compiled.confirm, compiled.fresh)
        train, val, confirm, fresh = (tuple(map(of.table.parse, keys)) for keys in given)
        Calibration(train, val, confirm, benchmark=of.name, spare=fresh)
    elif held_out := of.select_held_out((*compiled.train, *compiled.val)):
        raise SplitError(f"it was made on held-out variants: {', '.join(held_out)}")
    if held_out := of.select_held_out(compiled.seen):
        raise SplitError(f"the program it was made from was compiled on held-out variants: {', '.join(held_out)}")
    if compiled.signatures != hash_schema(Agent(compiled.method)):  # raises for an unknown method
        raise UsageError(
            f"it was compiled for other signatures (other fields) than those of {compiled.method} here; compile "
            "again, or use the rsso-dspy it was made with"
        )
    for each in (compiled, compiled.select_candidate()):
        if (found := fingerprint_program(each.agent())) != each.program:
            raise UsageError(_explain_changed_prompts(found))
    if compiled.confirmation and compiled.improved != (compiled.confirmation.verdict == "confirmed"):
        raise UsageError(
            f"its verdict is {compiled.confirmation.verdict!r} and `improved` says otherwise: it was changed after "
            "compiling; restore it, or compile again"
        )
