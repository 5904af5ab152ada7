"""stdout and stderr without secrets, whether this program, a library or a traceback prints."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from rsso_dspy.redact import redact


class RedactedStream:
    """A text stream that redacts secrets. It has no `buffer`, because bytes would bypass the filter."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(redact(text) if isinstance(text, str) else text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


@contextmanager
def redact_streams() -> Iterator[None]:
    """Redact stdout and stderr inside the block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (RedactedStream(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
