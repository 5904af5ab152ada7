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
    from rsso_dspy.cli.missing_streams import open_missing_streams
    from rsso_dspy.cli.streams import redacted_streams

    open_missing_streams()
    with redacted_streams():
        _run()


def _run() -> None:
    from rsso_dspy.cli.missing_streams import give_up
    from rsso_dspy.cli.refusals import failed
    from rsso_dspy.errors import RssoError
    from rsso_dspy.scarcity import shortage

    try:
        _typed()
    except RssoError as error:
        _end(error)
    except BrokenPipeError:
        give_up(1)
        give_up(2)
        raise SystemExit(1) from None
    except Exception as error:
        refused = shortage(error) or (error if isinstance(error, OSError) else None)
        if refused is None or refused.errno is None:
            _crash()
        _end(failed(refused))


def _crash() -> NoReturn:
    """Print the traceback here, where no key gets through."""
    import traceback

    traceback.print_exc()
    raise SystemExit(1)


def _typed() -> None:
    """The command, ended by SIGTERM as by Ctrl-C, and its output to the last byte."""
    from rsso_dspy.cli.missing_streams import flush
    from rsso_dspy.cli.playing import INTERRUPTED, TERMINATED, Ending, end_at_once, terminable

    ending = Ending()
    try:
        with terminable(ending):
            from rsso_dspy.cli.app import app

            app()
    except KeyboardInterrupt:
        end_at_once(ending.code)
        raise SystemExit(ending.code) from None
    except RuntimeError as error:
        # Ctrl-C twice in a wait: the first leaves a lock that the second finds released.
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        end_at_once(ending.code)
        raise SystemExit(ending.code) from None
    except SystemExit as end:
        code = ending.code if end.code == INTERRUPTED else end.code
        if code in (INTERRUPTED, TERMINATED):
            end_at_once(code)
        flush()
        raise SystemExit(code) from None


def _end(error: "RssoError") -> NoReturn:
    from rsso_dspy.report.terminal import visible

    print(visible(f"error: {error}"), file=sys.stderr)  # it may quote what a file or a server said
    raise SystemExit(error.exit_code)
