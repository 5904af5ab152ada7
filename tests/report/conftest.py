"""A real browser, and a page for it to open."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import UnitRecord
from tests.live import REWARDED, acting, walks
from tests.records import record
from tests.report.page_reading import STEPS, page_of

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium or Chrome, one for all tests of a file. Where there is none the tests are skipped."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser on PATH ({', '.join(NAMES)}): the page is not looked at")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        yield running
        running.close()


@pytest.fixture(scope="session")
def played(live) -> UnitRecord:
    """A unit that was really played."""
    lm, _ = walks(live)
    with acting(live, lm, rules=TrialRules(3, stop_on_success=False), budget=lambda _: STEPS):
        result = Agent("rsso")(variant=REWARDED)
    variant = live.runtime.variant(REWARDED)
    about = replace(record("rsso", variant.task, variant.index, [[0]]), budget=STEPS)
    return replace(about, trials=tuple(result.trials), memories=dict(result.memories))


@pytest.fixture(scope="session")
def run(played, tmp_path_factory) -> Path:
    """A page with that unit, an errored one, a training, and one that means harm."""
    return page_of(played, tmp_path_factory.mktemp("page") / "run.html")


METHODS = (
    "reflexion,reflexion-hierarchical,sso,rsso,react-sso,reflexion-sso,omnireflect-neural,omnireflect-symbolic,"
    "last-trajectory,long-context,exprag,expel,awm,reasoningbank,ace,cheatsheet"
)


@pytest.fixture(scope="session")
def memories_run(tmp_path_factory) -> Path:
    """The folder of a run of every method with a memory, played offline."""
    folder = tmp_path_factory.mktemp("memories") / "run"
    variants = "OpenRedBlueDoorsDebug::1234,OpenRedBlueDoorsDebug::1235"
    settings = ["--set", "embedder.model=hash", "--set", "protocol.steps=6", "--out", str(folder)]
    command = ["run", "--benchmark", "babyai", "--methods", METHODS, "--variants", variants, "--trials", "2", *settings]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return folder


Visit = Callable[..., Any]


@pytest.fixture
def visit(run, browser) -> Iterator[Visit]:
    """Open a page at an address of its own. Afterwards: no error, nothing refused by the policy, nothing fetched."""
    troubles: list[str] = []
    contexts = []

    def opened(address: str = "#/overview", file: Path = run, before: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1360, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: troubles.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("request", lambda asked: asked.url.startswith(("file:", "data:")) or troubles.append(asked.url))
        if before:
            page.add_init_script(before)
        page.goto(f"{file.as_uri()}{address}")
        return page

    yield opened
    for context in contexts:
        assert not any(page.evaluate("'bad' in window") for page in context.pages)
        context.close()
    assert troubles == []
