"""By how many trials the programs of a run were scored when they were compiled, from their copies in its folder."""

from rsso_dspy.bounds import MOST_TRIALS
from rsso_dspy.errors import DamagedFile
from rsso_dspy.files import read_json
from rsso_dspy.store.manifest import FOLDER
from rsso_dspy.store.unit_store import Store


def load_compile_trials(store: Store) -> dict[str, int]:
    """Return arm to the trials of a rollout; without zero-shot arms and programs whose copy does not say it."""
    found = {}
    for arm in store.read_identity()[1]:
        _, compiled, program = arm.rpartition("+")
        try:
            data = read_json(store.folder / FOLDER / "programs" / f"{program}.json") if compiled else None
        except (OSError, DamagedFile):
            continue
        trials = data.get("trials") if isinstance(data, dict) else None
        if type(trials) is int and 1 <= trials <= MOST_TRIALS:
            found[arm] = trials
    return found
