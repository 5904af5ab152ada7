"""The engine's own process: plays one game at a time, asked over stdin and answering over stdout, a line of JSON each.

Run by path (`environment.py`), so it imports nothing of this project. It ends when its stdin closes.

    {"game": {...}}                    the content of a game file
    {"action": "go to desk 1"}

Answers: {"feedback", "won", "done", "commands"}, or {"error", "of_game"}: whether the game is to blame.
"""

import json
import os
import sys
import tempfile
from typing import Any


class Worker:
    def __init__(self, folder: str):
        self._path = os.path.join(folder, "game.tw-pddl")
        self._game: Any = None
        self._env: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "game" in request:
            if request["game"] != self._game:
                self._start(request["game"])
            state = self._env.reset()
            is_done = False
        else:
            state, _, is_done = self._env.step(request["action"])
        return {
            "feedback": state["feedback"],
            "won": bool(state["won"]),
            "done": bool(is_done),
            "commands": sorted(state["admissible_commands"]),
        }

    def _start(self, game: Any) -> None:
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos

        if self._env is not None:
            self._env.close()
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump(game, file)
        infos = textworld.EnvInfos(won=True, admissible_commands=True)
        self._env = textworld.start(self._path, infos, wrappers=[AlfredDemangler, AlfredInfos])
        self._game = game


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the planner prints is no answer
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(folder)
        for line in sys.stdin:
            try:
                answer = worker.answer(json.loads(line))
            except (Exception, SystemExit) as error:  # the planner exits at PDDL that it cannot read
                of_game = not isinstance(error, ImportError | MemoryError | OSError)
                answer = {"error": f"{type(error).__name__}: {error}", "of_game": of_game}
            out.write(json.dumps(answer) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
