"""The command `reflexion`: what hosts call at a hook, and what people and agents type (verbs.py).

Of a hook the exit code is 0, whatever happened; else 0, 1 when something failed or is wrong, 2 for a wrong call.
"""

import os
import sys


def main() -> None:
    """Run the command and exit."""
    words = sys.argv[1:]
    if words[:1] == ["hook"]:  # hosts wait: argparse is not imported
        from reflexion.loop import run_hook

        run_hook(words[2] if words[1:2] == ["--agent"] and len(words) > 2 else "")
        os._exit(0)  # whatever the host did to the other end of stdout meanwhile
    from reflexion.verbs import run_verb

    raise SystemExit(run_verb(words))


if __name__ == "__main__":
    main()
