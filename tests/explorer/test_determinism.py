"""The same request and seed give the same bytes, whatever the process, the thread or the order of calls."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from math import ceil

from dspy.lm15 import Config, Message, Request

from rsso_dspy.explorer import Explorer
from rsso_dspy.signatures import SkillActor
from tests.explorer.conftest import REGIONS

SCRIPT = """
import sys
import dspy
from rsso_dspy.explorer import Explorer
from rsso_dspy.signatures import SkillActor
from tests.explorer.conftest import REGIONS
from dspy.lm15 import Config, Message, Request
system, user = [m["content"] for m in dspy.ChatAdapter().format(SkillActor, [], {k: REGIONS[k] for k in SkillActor.input_fields})]
request = Request(model="x", system=system, messages=(Message.user(user),), config=Config(temperature=1.0))
print(Explorer(5).complete(request).message.text)
print("heavy:", sorted({"litellm", "torch"} & set(sys.modules)))
"""  # noqa: E501


def request(temperature=1.0, **regions):
    import dspy

    given = {name: regions.get(name, REGIONS[name]) for name in SkillActor.input_fields}
    system, user = (message["content"] for message in dspy.ChatAdapter().format(SkillActor, [], given))
    return Request(model="x", system=system, messages=(Message.user(user),), config=Config(temperature=temperature))


def said(seed, temperature=1.0, **regions):
    return Explorer(seed).complete(request(temperature, **regions)).message.text


def test_no_hash_seed_changes_the_answer_and_nothing_heavy_is_loaded():
    outputs = []
    for hash_seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True
        )
        outputs.append(done.stdout)
    assert len(set(outputs)) == 1
    assert outputs[0] == f"{said(5)}\nheavy: []\n"


def test_threads_share_one_engine():
    engine, asked = Explorer(3), request()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: engine.complete(asked).message.text, range(64)))
    assert set(answers) == {said(3)}


def test_seeds_differ_when_warm_and_agree_when_cold():
    quiet = {"skills": "", "plans_from_past_attempts": ""}
    assert len({said(seed, 2.0, **quiet) for seed in range(12)}) > 1
    assert len({said(seed, 0.0, **quiet) for seed in range(12)}) == 1


def test_copies_and_saved_state_are_the_same_engine():
    engine = Explorer(9)
    assert deepcopy(engine) is engine
    assert Explorer.load_state(engine.dump_state()).complete(request()).message == engine.complete(request()).message


def test_usage_is_characters_by_four_rounded_up():
    asked = request()
    response = Explorer(0).complete(asked)
    heard = f"{asked.system}\n\n{asked.messages[0].text}"
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens) == (ceil(len(heard) / 4), ceil(len(response.message.text) / 4))
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


def test_a_stream_ends_in_the_same_answer():
    from dspy.lm15 import response_to_events

    engine = Explorer(1)
    assert list(engine.stream(request())) == list(response_to_events(engine.complete(request())))
