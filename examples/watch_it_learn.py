"""Watch an agent learn, trial by trial: `python examples/watch_it_learn.py`. Offline, no key.

Each variant is played three times, by equal retries and by an agent that writes reflections, under the rules of the
recorded run of BabyAI (examples/recorded). At the end: one variant in full, what failed, what the agent wrote about it,
and what it did next.

The variants are of the development split, chosen because this player learns something there: they show how learning
works, not how often. The held-out comparison is `rsso-dspy run`.
"""

import textwrap

import rsso_dspy
from rsso_dspy.config import load_config

VARIANTS = ("lifespan-shortest-lived::62", "lifespan-shortest-lived::63", "lifespan-longest-lived::62")
CONTROL, LEARNER = "react", "reflexion"
SETTINGS = ("protocol.preset=adapt/4", "protocol.steps=20")


def main() -> None:
    with rsso_dspy.session(load_config(overrides=SETTINGS)) as live:
        print(f"Played by {live.backend.models['actor']}, whose scores say nothing about language models.\n")
        print(f"{'variant':30}{'method':12}points of 100, trial by trial")
        played = {}
        for variant in VARIANTS:
            for method in (CONTROL, LEARNER):
                result = rsso_dspy.Agent(method)(variant=variant, trials=3)
                played[variant, method] = result
                print(f"{variant:30}{method:12}{describe_trials(result)}", flush=True)
    learned = [result for (_, method), result in played.items() if method == LEARNER and was_learned(result)]
    if learned:
        print_story(learned[0])
    else:
        print("\nNo variant was failed first and solved later: nothing to show step by step.")


def describe_trials(result) -> str:
    """Write the points of each trial; a trial that solved the variant ends the unit."""
    trials = [trial.trajectory for trial in result.trials]
    return ", ".join(f"{each.accumulator}{' solved' if each.solved else ''}" for each in trials)


def was_learned(result) -> bool:
    """Whether the first trial failed and the last one solved the variant."""
    return not result.trials[0].trajectory.solved and result.trials[-1].trajectory.solved


def print_story(result) -> None:
    """Print the first and the last trial, and what the agent wrote between them."""
    first, last = result.trials[0].trajectory, result.trials[-1].trajectory
    print(f"\n{result.variant}, {result.method}: {first.task.strip()}")
    print_steps(f"Trial 1, {first.accumulator} points:", first)
    for written in result.memories["reflections"]["plans"]:
        print(f"\nWhat it wrote after trial {written['trial']}, and reads from then on:")
        print(textwrap.indent(textwrap.fill(" ".join(written["plan"].split()), 100), "    "))
    print_steps(f"Trial {len(result.trials)}, {last.accumulator} points, solved:", last)


def print_steps(title, trajectory, most=12) -> None:
    """Print the actions with their rewards, the middle of a long trial left out."""
    print(f"\n{title}")
    for number, step in enumerate(trajectory.steps, start=1):
        if number <= most or number > len(trajectory.steps) - 3:
            print(f"    {number:2} {step.action}{f'   {step.reward:+d}' if step.reward else ''}")
        elif number == most + 1:
            print("       ...")


if __name__ == "__main__":
    main()
