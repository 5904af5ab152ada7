"""The command line: one file per verb, each a thin call into the room that does the work, and what several share.

`main` is the console script. Errors of this project print their message and give their exit code: 2 for a wrong call,
1 for a failed run, 130 when interrupted.
"""

import sys


def main() -> None:
    """Run the command line and exit."""
    from rsso_dspy.cli.app import app
    from rsso_dspy.errors import RssoError

    try:
        app()
    except RssoError as error:
        from rsso_dspy.report.terminal import visible

        print(visible(f"error: {error}"), file=sys.stderr)  # it may quote what a file or a server said
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        print(f"error: {error}; everything finished is kept, free or name another place and run again", file=sys.stderr)
        raise SystemExit(1) from None
