"""The engine's own process: plays one game at a time, asked over stdin and answering over stdout, a line of JSON each.

Run by path (`engine.py`), so it imports nothing of this project. It ends when its stdin closes.

    {"do": "load", "path": "/.../game.tw-pddl"}     a game file; {"do": "load", "game": {...}} for one that is no file
    {"do": "step", "action": "go to desk 1"}

Answers: {"feedback", "won", "done", "commands"}, or {"error", "of_game"}: whether the game is to blame.
"""

import json
import os
import sys
import tempfile
from typing import Any


class Worker:
    """The game that is played."""

    def __init__(self, folder: str):
        self._made = os.path.join(folder, "game.tw-pddl")
        self._path = ""
        self._env: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "load":
            return self._describe(self._load(request))
        state, _, done = self._env.step(request["action"])
        return self._describe(state, bool(done))

    def _load(self, request: dict[str, Any]) -> Any:
        path = request.get("path")
        if path is None:
            with open(self._made, "w", encoding="utf-8") as file:
                json.dump(request["game"], file)
        if path is None or path != self._path:
            self._start(path or self._made)
            self._path = path or ""
        return self._env.reset()

    def _start(self, path: str) -> None:
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos

        if self._env is not None:
            self._env.close()
            self._path = ""
        asked = textworld.EnvInfos(won=True, admissible_commands=True)
        self._env = textworld.start(path, asked, wrappers=[AlfredDemangler, AlfredInfos])

    def _describe(self, state: Any, done: bool = False) -> dict[str, Any]:
        return {
            "feedback": state["feedback"],
            "won": bool(state["won"]),
            "done": done,
            "commands": sorted(state["admissible_commands"]),
        }


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the planner prints is no answer
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(folder)
        for line in sys.stdin:
            try:
                told = worker.answer(json.loads(line))
            except (Exception, SystemExit) as error:  # the planner exits at PDDL that it cannot read
                of_game = not isinstance(error, ImportError | MemoryError | OSError)
                told = {"error": f"{type(error).__name__}: {error}", "of_game": of_game}
            out.write(json.dumps(told) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
