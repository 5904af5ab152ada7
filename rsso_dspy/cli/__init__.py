"""The command line: verbs as typed options and a thin body. `play` plays for them, `results` prints and writes. `main`
is the console script. Errors of this project print their message and give their exit code. Keys are redacted."""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from rsso_dspy.errors import RssoError


def main() -> None:
    open_missing_streams()

    import traceback

    from rsso_dspy.cli.process import find_os_error, redact_streams, to_rsso_error
    from rsso_dspy.errors import RssoError

    with redact_streams():
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
    from rsso_dspy.cli.process import INTERRUPTED, TERMINATED, ExitStatus, exit_on_interrupt, interrupt_on_sigterm

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


def open_missing_streams() -> None:
    """Open the null device for each closed standard stream (`2>&-`), before any file gets its number: Java or a C
    library that writes to the stream by number would write into that file."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def flush_stdout() -> None:
    """Flush stdout and raise its errors now; at interpreter exit they could not be reported properly."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_stream(1)
        raise


def discard_stream(number: int) -> None:
    """Redirect a stream without a reader to the null device, so that its buffer causes no error at exit."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
