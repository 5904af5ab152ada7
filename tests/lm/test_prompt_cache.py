"""What is sent to a provider that caches marked blocks: the same words, and an end that the next prompt has again."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import dspy
import pytest
from dspy.lm15 import CacheConfig

from rsso_dspy.lm.prompt_cache import mark_cacheable_prefix
from rsso_dspy.programs.role_calls import TrialLedger
from rsso_dspy.signatures import FlatActor
from tests.provider_formats import Said, blocks_of
from tests.provider_runs import KEY, VARIABLE, backend, look, run_against
from tests.provider_server import provider

LOOKBACK, SHORTEST = 20, 2000
"""Blocks before a mark at whose ends the provider looks for what it has read, and characters that are worth it."""


def prompt(history: Sequence[str], skills: str = "none") -> list[dict[str, Any]]:
    text = "## history\n" + "\n\n".join(history) + f"\n\n## skills\n{skills}"
    return [{"role": "system", "content": "Play."}, *DEMO, {"role": "user", "content": text}]


DEMO = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
SEEN = ["You see a lamp.\n\n\nIt is on.", "Action: look", "You see a lamp."]


def test_the_words_stay_and_a_longer_history_begins_with_the_blocks_of_the_shorter():
    shorter, longer = (mark_cacheable_prefix(prompt(seen), "\n\n".join(seen)) for seen in (SEEN[:1], SEEN))
    for (messages, options), seen in ((shorter, SEEN[:1]), (longer, SEEN)):
        system, *demo, blocks, rest = messages
        assert [system, *demo] == prompt(seen)[:3]
        words = [block["text"] for block in blocks["content"]]
        assert all(text.strip() for text in words)
        assert "".join(words) + rest["content"] == prompt(seen)[-1]["content"]
        assert rest["content"].lstrip().startswith("## skills")
        assert options == {"prompt_cache": CacheConfig(prefix_until_index=2)}
    ours, theirs = (messages[-2]["content"] for messages, _ in (shorter, longer))
    assert theirs[: len(ours)] == ours
    assert len(theirs) == len(ours) + 2


@pytest.mark.parametrize("between", ["\n\n", "\n\n\n\n", "\n\n \n\n", "\n\n\t\n \n\n"])
def test_no_block_is_white_space_alone(between):
    text = f"First I look.{between}Then I act."
    (_, _, _, blocks, rest), _ = mark_cacheable_prefix(prompt([text, ""]), text)
    assert [block["text"].strip() for block in blocks["content"]] == ["## history\nFirst I look.", "Then I act."]
    assert rest["content"].strip().startswith("## skills")


@pytest.mark.parametrize("growing", ["", "not in it", "## history\nx\n\n## skills\nnone"])
def test_without_a_text_that_more_stands_behind_nothing_is_marked(growing):
    messages = prompt(["x"])
    assert mark_cacheable_prefix(messages, growing) == (messages, {})
    parts = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    assert mark_cacheable_prefix(parts, "x") == (parts, {})


class Cache:
    """A provider's cache as it is documented, of characters: it writes up to a mark, and reads the longest beginning
    that it has written and that ends with one of the blocks before a mark."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._known: set[str] = set()

    def __call__(self, body: dict[str, Any]) -> Said:
        self.bodies.append(body)
        ends, marks, read = [], [], 0
        whole = ""
        for block in blocks_of(body):
            whole += block["text"]
            ends.append(whole)
            marks += [len(ends)] if "cache_control" in block else []
        for mark in (mark for mark in marks if len(ends[mark - 1]) >= SHORTEST):
            read = max([read, *(len(end) for end in ends[max(0, mark - LOOKBACK) : mark] if end in self._known)])
        marks = [mark for mark in marks if len(ends[mark - 1]) >= SHORTEST]
        self._known |= {ends[mark - 1] for mark in marks}
        written = max([0, *(len(ends[mark - 1]) - read for mark in marks)])
        return replace(look(body), input=len(whole), cached=read, cache_write=written)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Plays a unit of 23 steps; gives the requests and the actor's usage."""
    monkeypatch.setenv(VARIABLE, KEY)

    def play(wire: str, layout: str, **more: Any):
        cache = Cache()
        settings = [f"protocol.layout={layout}"]
        with run_against(wire, tmp_path / wire / layout, answer=cache, settings=settings, **more) as run:
            run.plan = replace(run.plan, units=(replace(run.plan.units[0], budget=23),))
            run.play()
            assert run.served.flaws == []
            (record,) = run.records
        assert not record.has_errors
        return cache.bodies, record.trials[0].usage["actor"]

    return play


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("adapter", ["chat", "json", "xml"])
def test_under_the_cache_layout_most_of_a_prompt_is_read_from_the_cache(played, adapter):
    bodies, usage = played("anthropic", "cache", adapter=adapter)
    assert usage.cached > 0.6 * usage.input
    assert usage.cache_write < 0.3 * usage.input
    assert all([("cache_control" in block) for block in blocks_of(body)].count(True) == 2 for body in bodies)
    lengths = [len(body["messages"][0]["content"]) for body in bodies]
    assert sum(after < before for before, after in pairwise(lengths)) == 1, "once the oldest states were left out"
    plain, _ = played("openai", "cache", adapter=adapter)
    assert ["".join(block["text"] for block in blocks_of(body)) for body in bodies] == [
        "".join(message["content"] for message in body["messages"]) for body in plain
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_conversation_is_read_from_the_cache_but_for_its_end(played):
    bodies, usage = played("anthropic", "append")
    assert usage.cached > 0.8 * usage.input
    assert usage.cached + usage.cache_write == usage.input
    blocks = [[block["text"] for block in blocks_of(body)] for body in bodies]
    for before, after in pairwise(blocks):
        assert after[: len(before)] == before
        assert len(after) == len(before) + 2
    for body in bodies:
        marks = ["cache_control" in block for block in blocks_of(body)]
        assert (marks[0], marks[-1], sum(marks)) == (True, True, 2)
    plain, _ = played("openai", "append")
    assert blocks == [[message["content"] for message in body["messages"]] for body in plain]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_demonstrations_stand_before_what_is_marked(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    predictor = dspy.Predict(FlatActor)
    predictor.demos = [dspy.Example(task="Dry it.", history="A wet lamp.", thought="Hm.", action="dry lamp")]
    cache, history = Cache(), "You see a lamp.\n\nIt is on."
    with provider(cache, wire="anthropic") as served:
        model, ledger = backend("anthropic", served), TrialLedger(lambda _role, _usage: None)
        with (
            dspy.context(adapter=model.adapter, disable_history=True),
            ledger.book_under_role("actor", growing=history),
        ):
            for more in ("", "\n\nAction: look"):
                ledger.growing = history + more
                predictor(task="Boil it.", history=history + more, skills="none", lm=model.lm("actor", 0))
        assert served.flaws == []
    for body in cache.bodies:
        assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "user"]
        last = body["messages"][2]["content"][-1]
        assert "cache_control" in last
    shorter, longer = (body["messages"][2]["content"] for body in cache.bodies)
    assert [block["text"] for block in longer][: len(shorter)] == [block["text"] for block in shorter]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_under_the_layout_of_the_paper_nothing_is_marked(played):
    bodies, usage = played("anthropic", "paper")
    assert "cache_control" not in str(bodies)
    assert (usage.cached, usage.cache_write) == (0, 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_way_to_the_provider_that_takes_no_marks_gets_none(played, monkeypatch):
    cache = Cache()
    with provider(cache, wire="anthropic") as served:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", served.root)
        played("anthropic", "cache", base_url=None)
        assert served.flaws == []
    assert len(cache.bodies) == 23
    assert "cache_control" not in str(cache.bodies)
