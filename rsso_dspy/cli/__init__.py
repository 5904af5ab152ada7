"""The command line: one file per command, each a thin call into the package that does the work.

`main` is the console script. Errors of this project print their message and give their exit code: 2 for a wrong call,
1 for a failed run, 130 when interrupted, 143 after SIGTERM. Keys are redacted from all output.
"""

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from rsso_dspy.errors import RssoError


def main() -> None:
    """Run the command line and exit."""
    from rsso_dspy.cli.redacted_streams import redact_streams
    from rsso_dspy.cli.standard_streams import open_missing_streams

    open_missing_streams()
    with redact_streams():
        _run_cli()


def _run_cli() -> None:
    import traceback

    from rsso_dspy.cli.os_errors import find_os_error, to_rsso_error
    from rsso_dspy.cli.standard_streams import discard_stream
    from rsso_dspy.errors import RssoError

    try:
        _run_typer_app()
    except RssoError as error:
        _exit_with_error(error)
    except BrokenPipeError:
        discard_stream(1)
        discard_stream(2)
        raise SystemExit(1) from None
    except Exception as error:
        refused = find_os_error(error)
        if refused is None:
            traceback.print_exc()  # through the redacting stream
            raise SystemExit(1) from None
        _exit_with_error(to_rsso_error(refused))


def _run_typer_app() -> None:
    """Run the command, treat SIGTERM like Ctrl-C, and flush all output."""
    from rsso_dspy.cli.interruption import INTERRUPTED, TERMINATED, ExitStatus, exit_on_interrupt, interrupt_on_sigterm
    from rsso_dspy.cli.standard_streams import flush_stdout

    ending = ExitStatus()
    try:
        with interrupt_on_sigterm(ending):
            from rsso_dspy.cli.app import app

            app()
    except (KeyboardInterrupt, RuntimeError) as error:
        # Ctrl-C twice in a wait: the first leaves a lock that the second finds released, a RuntimeError.
        if not isinstance(error, KeyboardInterrupt) and not isinstance(error.__context__, KeyboardInterrupt):
            raise
        exit_on_interrupt(ending.code)
        raise SystemExit(ending.code) from None
    except SystemExit as end:
        code = ending.code if end.code == INTERRUPTED else end.code
        if code in (INTERRUPTED, TERMINATED):
            exit_on_interrupt(code)
        flush_stdout()
        raise SystemExit(code) from None


def _exit_with_error(error: "RssoError") -> NoReturn:
    from rsso_dspy.report.terminal import replace_controls

    print(replace_controls(f"error: {error}"), file=sys.stderr)  # may quote a file or a server
    raise SystemExit(error.exit_code)
