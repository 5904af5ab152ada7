"""What the offline player does where a world says what can be done when it is asked: by the prompt alone."""

import pytest

from rsso_dspy.explorer.offered_actions import answer_offered
from rsso_dspy.explorer.prompt_parser import ParsedPrompt, PromptLayout
from rsso_dspy.explorer.seeded_noise import SeededNoise

FORMS = "Some words.\nTemplates:\nturn left\ngo to NAME N\npickup NAME N\ncheck available actions"
SEES = "There is a red ball 1 right in front of you 2 steps away.  There is a grey key 1 3 steps in front of you."
ASKS = "Templates:\nmove from ROOM to ROOM\ncheck valid actions"


def act(history: str, templates: str = FORMS, task: str = "go to the red ball", told: str = "") -> str | None:
    regions = {"task": task, "action_templates": templates, "history": history, "plans_from_past_attempts": told}
    prompt = ParsedPrompt(PromptLayout("", {"action": "str"}, "chat"), regions, (), "")
    answer = answer_offered(prompt, SeededNoise(0, 0.0))
    return answer and answer["action"]


LISTED = f"{SEES}\n\nActions that can be taken now:\n- turn left\n- pickup grey key 1\n- go to red ball 1\n"
ASKED = f"{SEES}\n\nThought: -\nAction: check available actions\n\nYou can take the following actions: turn left, "
ASKED += "pickup grey key 1, go to red ball 1"


@pytest.mark.parametrize(
    ("given", "does"),
    [
        ({"history": SEES, "templates": "Templates:\nlook around\nteleport to LOCATION"}, None),
        ({"history": SEES}, "check available actions"),
        ({"history": ASKED}, "go to red ball 1"),
        ({"history": LISTED}, "go to red ball 1"),
        ({"history": ASKED, "task": "pick up the grey key"}, "pickup grey key 1"),
        ({"history": LISTED, "task": "pick up the key"}, "pickup grey key 1"),
        ({"history": "Robby is at rooma.", "templates": ASKS}, "check valid actions"),
        ({"history": "Robby is at rooma.\n\n> check valid actions\nValid actions are: Move from rooma to roomb. , Move "
          "from rooma to roomc. , check valid actions", "templates": ASKS, "task": "ball1 is at roomc."},
         "Move from rooma to roomc"),
        ({"history": ASKED, "task": "win", "told": "Attempt 1: pickup grey key 1."}, "pickup grey key 1"),
        ({"history": LISTED, "task": "win", "told": "Attempt 1: Do not turn left."}, "pickup grey key 1"),
    ],
)  # fmt: skip
def test_it_tries_what_is_offered_the_words_of_the_task_first(given, does):
    assert act(**given) == does
