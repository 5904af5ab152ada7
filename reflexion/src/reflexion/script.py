"""The console script `reflexion`: what hooks call. It imports next to nothing before it knows what for.

reflexion hook --agent claude-code      # payload on stdin
reflexion merge BASE OURS THEIRS        # what git calls to merge an entry
"""

import os
import sys


def main() -> None:
    """Run the script and exit. A hook's exit code is 0, whatever happened."""
    words = sys.argv[1:]
    if words[:1] == ["hook"]:
        agent = words[2] if words[1:2] == ["--agent"] and len(words) > 2 else ""
        from reflexion.hook import run_hook

        run_hook(agent)
        os._exit(0)  # whatever the host did to the other end of stdout meanwhile
    if words[:1] == ["merge"] and len(words) == 4:
        from reflexion.merge import merge_files

        raise SystemExit(merge_files(*words[1:]))
    if words == ["--version"]:
        from reflexion import __version__

        print(f"reflexion {__version__}")
        return
    from reflexion.errors import RssoError
    from reflexion.verbs.main import app

    try:
        app()
    except (RssoError, OSError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(getattr(error, "exit_code", 1)) from None


if __name__ == "__main__":
    main()
