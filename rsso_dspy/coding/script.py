"""The console script `reflexion`: what hooks call. It imports next to nothing before it knows what for.

reflexion hook --agent claude-code      # payload on stdin
reflexion merge BASE OURS THEIRS        # what git calls to merge an entry
"""

import os
import sys

USAGE = """usage: reflexion hook --agent AGENT    what a coding agent's hooks call, a payload on stdin
       reflexion merge BASE OURS THEIRS    what git calls to merge an entry
For everything else: rsso-dspy coding --help, rsso-dspy hooks --help
"""


def main() -> None:
    """Run the script and exit. A hook's exit code is 0, whatever happened."""
    words = sys.argv[1:]
    if words[:1] == ["hook"]:
        agent = words[2] if words[1:2] == ["--agent"] and len(words) > 2 else ""
        from rsso_dspy.coding.hook import run_hook

        run_hook(agent)
        os._exit(0)  # whatever the host did to the other end of stdout meanwhile
    if words[:1] == ["merge"] and len(words) == 4:
        from rsso_dspy.coding.merge import merge_files

        raise SystemExit(merge_files(*words[1:]))
    if words == ["--version"]:
        from rsso_dspy.version import __version__

        print(f"reflexion {__version__}")
        return
    wants_help = words in ([], ["--help"], ["-h"])
    print(USAGE, end="", file=sys.stdout if wants_help else sys.stderr)
    raise SystemExit(0 if wants_help else 2)


if __name__ == "__main__":
    main()
