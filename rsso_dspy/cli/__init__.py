"""The command line: one file per verb, each a thin call into the room that does the work, and what several share.

`main` is the console script. Errors of this project print their message and give their exit code: 2 for a wrong call,
1 for a failed run, 130 when interrupted, 143 when ended by SIGTERM. No key is printed, by whomever.
"""

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from rsso_dspy.errors import RssoError


def main() -> None:
    """Run the command line and exit."""
    from rsso_dspy.cli.streams import redacted_streams

    with redacted_streams():
        _run()


def _run() -> None:
    from rsso_dspy.cli.app import app
    from rsso_dspy.cli.refusals import failed
    from rsso_dspy.errors import RssoError

    try:
        app()
    except RssoError as error:
        _end(error)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None
    except OSError as error:
        if error.errno is None:
            _crash()
        _end(failed(error))
    except Exception:
        _crash()


def _crash() -> NoReturn:
    """Print the traceback here, where no key gets through."""
    import traceback

    traceback.print_exc()
    raise SystemExit(1)


def _end(error: "RssoError") -> NoReturn:
    from rsso_dspy.report.terminal import visible

    print(visible(f"error: {error}"), file=sys.stderr)  # it may quote what a file or a server said
    raise SystemExit(error.exit_code)
