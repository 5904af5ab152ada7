"""What the folders of a run hold, collected for analysis."""

from collections.abc import Mapping
from typing import Any

from rsso_dspy.report.analysis import RunRecords
from rsso_dspy.store.manifest import load_compile_trials
from rsso_dspy.store.pooled_runs import PooledRuns
from rsso_dspy.store.run_spec import list_missing_shards


def collect_played(pool: PooledRuns) -> RunRecords:
    """Collect the records, costs and dates of a pool. Raises `RunMismatch` if units of one arm cannot be pooled."""
    playing = {store: store.is_playing() for store in pool.stores}
    cut_short = [each for store in pool.stores if not playing[store] for each in pool.read_under_way(store)]
    records = list(pool.units())
    there = {f"{record.arm}/{record.key}/s{record.seed}" for record in records}
    wanted = {pool.label_unit(store, unit) for store in pool.stores for unit in store.list_planned_units()}
    dates = sorted(day for store in pool.stores for day in store.list_played_days())
    return RunRecords(
        records,
        list(pool.trainings()),
        list(pool.load_begun()),
        [*pool.read_abandoned(), *cut_short],
        tuple(dict.fromkeys([*dates[:1], *dates[-1:]])),
        len(wanted - there),
        list_missing_shards(shard for store in pool.stores for shard in store.read_shards()),
        [each for store in pool.stores if playing[store] for each in pool.read_under_way(store)],
        {
            pool.label_arm(store, arm): get_role_models(identity)
            for store in pool.stores
            for identity, arms in [store.read_identity()]
            for arm in arms
        },
        {
            pool.label_arm(store, arm): trials
            for store in pool.stores
            for arm, trials in load_compile_trials(store).items()
        },
    )


def get_role_models(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the model of each role, as far as the run's identity names it."""
    try:
        backend = identity["config"]["backends"][identity["config"]["backend"]]
        roles = {role: own.get("model") or backend["model"] for role, own in backend.get("roles", {}).items()}
        return {role: str(backend["model"]) for role in ("actor", "reflector", "verbalizer", "advisor")} | roles
    except (KeyError, TypeError, AttributeError):
        return {}
