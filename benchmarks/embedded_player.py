"""What the rule-based player earns on 14 development variants of ScienceWorld, two of each of seven tasks.

    python benchmarks/embedded_player.py

Its scores say nothing about language models: they tell whether a change of the player made it worse. The last line is
one JSON object.
"""

import json
from statistics import fmean

import rsso_dspy
from benchmarks.script import make_parser, parse_options
from rsso_dspy.config import load_config

VARIANTS = (
    *("find-plant::153", "find-plant::154", "find-living-thing::153", "find-living-thing::154"),
    *("lifespan-longest-lived::62", "lifespan-longest-lived::65", "use-thermometer::276", "use-thermometer::278"),
    *("inclined-plane-determine-angle::85", "inclined-plane-determine-angle::89", "grow-plant::62", "grow-plant::65"),
    *("identify-life-stages-1::6", "identify-life-stages-1::7"),
)
SETTINGS = ("protocol.preset=adapt/4-cap60", "protocol.trials=3", "embedder.model=hash")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--variants", type=int, default=len(VARIANTS), help="how many of the variants are played")
    variants = VARIANTS[: parse_options(parser, variants=1).variants]
    rows = {}
    with rsso_dspy.session(load_config(overrides=list(SETTINGS))):
        for method in ("react", "sso", "reflexion", "rsso"):
            results = [rsso_dspy.Agent(method)(variant=variant, trials=3) for variant in variants]
            trials = [[trial.trajectory for trial in result.trials] for result in results]
            rows[method] = {
                "points": round(fmean(result.points for result in results), 1),
                "solved": sum(any(played.solved for played in each) for each in trials),
                "steps a unit": round(fmean(sum(len(played.steps) for played in each) for each in trials), 1),
            }
            print(method, rows[method])
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
