"""A memory and a method of one's own, played offline: `python examples/hello_agent.py`. Longer: docs/EXTENDING.md."""

import rsso_dspy
from rsso_dspy.config import load_config
from rsso_dspy.memory import Memory, Recall
from rsso_dspy.programs.methods import Method, add_method


class BestSoFar(Memory):
    region = "plans_from_past_attempts"  # the field of the actor's prompt that it speaks in

    def __init__(self, services):
        self.points, self.plan = 0, ""

    def preamble(self):  # before a trial
        return Recall(self.plan)

    def learn(self, trajectory):  # after a trial: the way to the points, if there were more than ever before
        if trajectory.accumulator > self.points:
            self.points = trajectory.accumulator
            last = max(n for n, step in enumerate(trajectory.steps) if step.reward > 0)
            actions = [step.action for step in trajectory.steps[: last + 1] if step.understood]
            self.plan = "\n".join([f"Attempt {trajectory.trial}: this earned {self.points} points.", *actions])
        return {"points": self.points}  # for the record

    def snapshot(self):
        return {"points": self.points, "plan": self.plan}

    def restore(self, data):
        self.points, self.plan = data["points"], data["plan"]


add_method(Method("hello", "sso", ("best",), source="this file"), best=BestSoFar)

if __name__ == "__main__":
    with rsso_dspy.session(load_config(overrides=["protocol.preset=sso-adapt/3"])):
        for name in ("react-sso", "hello"):  # equal retries, and the same with the memory
            print(rsso_dspy.Agent(name)(variant="inclined-plane-determine-angle::72", trials=2))
