"""Placebos: rewordings that mean nothing. What they gain on `val` is luck, and shows how much of a candidate's gain may
be luck too."""

from collections.abc import Collection

from rsso_dspy.environments import Interface
from rsso_dspy.optimize.proposing.instructions import keep_instructions, show_sent_instructions
from rsso_dspy.programs.agent import Agent

SENTENCES = (
    "What stands above is said here once.",
    "These words are one way of putting it, and others would have done.",
    "The above is written in plain English.",
    "There is nothing further in this paragraph.",
    "The lines above and this one belong together.",
    "This line ends the description.",
)
"""Each becomes a paragraph of its own at the end of an instruction. None says what to do."""


def make_placebo(agent: Agent, tuned: Collection[str], seed: int, interface: Interface = "sso") -> Agent:
    """The program with a meaningless sentence, chosen by the seed, at the end of every instruction that may be changed,
    as it is sent under this interface."""
    placebo = Agent(agent.method.name)
    placebo.load_state(agent.dump_state())
    show_sent_instructions(placebo, interface)
    for name, predictor in placebo.predictors_by_name.items():
        if name in tuned:
            said = predictor.signature.instructions
            predictor.signature = predictor.signature.with_instructions(f"{said}\n\n{SENTENCES[seed % len(SENTENCES)]}")
    keep_instructions(placebo, interface)
    return placebo
