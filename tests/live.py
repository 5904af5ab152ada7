"""A plugin with what many tests share: one live session with one simulator, and engines that stand in for a model.

The simulator is real everywhere. The engines below decide what a model says where a test is about what follows from it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from rsso_dspy.adapter import label
from rsso_dspy.config import load_config
from rsso_dspy.offline import Explorer
from rsso_dspy.offline.prompt import split_fields
from rsso_dspy.sessions import Session, session

FAST = ("embedder.model=hash", "protocol.preset=sso-adapt/3-cap60")


@pytest.fixture(scope="session")
def live() -> Iterator[Session]:
    """A session on the embedded backend with the instant embedder; its simulator is shared by all tests."""
    with session(load_config(overrides=FAST)) as shared:
        yield shared


class Engine:
    """A model whose answers a function gives: prompt text in, answer text out. Keeps every prompt."""

    def __init__(self, answer: Callable[[str], str]):
        self.answer = answer
        self.prompts: list[str] = []

    def complete(self, request: Request) -> Response:
        text = prompt_of(request)
        self.prompts.append(text)
        said = self.answer(text)
        usage = Usage(input_tokens=len(text), output_tokens=len(said), total_tokens=len(text) + len(said))
        return Response(None, request.model, Message.assistant([TextPart(said)]), "stop", usage)

    def close(self) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> "Engine":
        return self


class Recorder(Explorer):
    """The embedded model, keeping every prompt."""

    def __init__(self, seed: int, prompts: list[str]):
        super().__init__(seed=seed)
        self.prompts = prompts

    def complete(self, request: Request) -> Response:
        self.prompts.append(prompt_of(request))
        return super().complete(request)


def prompt_of(request: Request) -> str:
    """Everything a model is sent, as one text."""
    system = request.system
    texts = [system if isinstance(system, str) else "".join(part.text for part in system or ())]
    return "\n\n".join([*texts, *(f"<{message.role}>\n{message.text}" for message in request.messages)])


def model(engine: Any) -> dspy.LM:
    return dspy.LM("embedded/explorer", engine=engine, cache=False, temperature=0.5)


def says(**fields: str) -> str:
    """An answer in the chat format."""
    return "\n".join(f"{label(name)}: {value}" for name, value in fields.items())


def is_asked(prompt: str, name: str) -> bool:
    """Whether a prompt asks for this output field."""
    asked = prompt.partition("<user>")[0]
    return f"Answer with the {label(name).lower()} alone" in asked or f"\n{label(name)}:" in asked


def scripted(actions: Sequence[str], subgoal: str = "none") -> Engine:
    """An actor that takes these actions in turn and then waits; any other role says nothing usable."""
    left = iter(actions)

    def answer(prompt: str) -> str:
        if is_asked(prompt, "action"):
            return says(thought="As planned.", subgoal=subgoal, action=next(left, "wait"))
        return "no answer"

    return Engine(answer)


REWARDED = "find-plant::229"
WALK = ["look around"] * 3 + ["focus on peach tree in adult stage"] + ["look around"] * 3 + ["teleport to bedroom"]
"""Two rewards on that variant, each after enough steps to make a window; the trial ends unsolved."""


def walks(
    live: Session, subgoal: str = "none", mute: Collection[str] = ()
) -> tuple[Callable[[str, int], dspy.LM], dict[int, Engine]]:
    """Models of a unit whose actor walks WALK in every trial and names `subgoal`. The other roles are the embedded
    ones, except that those in `mute` answer nothing that can be read. Also the actors, by rollout number."""
    actors: dict[int, Engine] = {}

    def lm(role: str, rollout: int) -> dspy.LM:
        if role == "actor":
            return model(actors.setdefault(rollout, scripted(WALK, subgoal)))
        return model(Engine(lambda _: "I would rather not say.")) if role in mute else live.backend.lm(role, rollout)

    return lm, actors


@contextmanager
def acting(live: Session, lm: Callable[[str, int], dspy.LM], **changes: Any) -> Iterator[None]:
    """The live session with other models, and other runtime fields, for the time of the block."""
    with live.activate_for_run(), replace(live.runtime, lm=lm, **changes).activate():
        yield


def region(prompt: str, name: str) -> str | None:
    """The text of one input field in a prompt: of the last message where it stands in it, else of the first; None when
    it is absent."""
    _, *messages = prompt.split("<user>\n")
    told = [split_fields(text.partition("\n\n<assistant>")[0]) for text in messages]
    return next((fields[name] for fields in (*told[-1:], *told[:1]) if name in fields), None)
