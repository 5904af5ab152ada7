"""A wall clock that is moved from outside, for one process: `wind` in the run's process, a `Clock` in ours.

The clock of the machine stays as it is. What a program reads through `time.time`, `time.time_ns` and `datetime` is
moved; clocks that only count on (`time.monotonic`) are not, as on a machine whose time is set.
"""

import datetime
import mmap
import struct
import time
from pathlib import Path
from typing import Any

FORM = "<dq"
"""Seconds that the clock is ahead, and how often it was read since they were set."""


class Clock:
    """The clock that the file stands for."""

    def __init__(self, file: Path):
        if not file.exists():
            file.write_bytes(struct.pack(FORM, 0.0, 0))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), struct.calcsize(FORM))

    def jump(self, ahead: float) -> None:
        """Set it to so many seconds ahead of the real one."""
        struct.pack_into(FORM, self._memory, 0, ahead, 0)

    @property
    def readings(self) -> int:
        """How often it was read since it jumped."""
        return struct.unpack_from(FORM, self._memory)[1]

    def read(self) -> float:
        """Seconds ahead; counts as a reading."""
        ahead, readings = struct.unpack_from(FORM, self._memory)
        struct.pack_into("<q", self._memory, 8, readings + 1)
        return ahead


def wind(file: Path) -> None:
    """Have this process read the clock of the file. Comes before other modules take the functions."""
    clock, seconds, nanoseconds, real = Clock(file), time.time, time.time_ns, datetime.datetime

    class Kind(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, real)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, real)

    class Moved(real, metaclass=Kind):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return real.now(tz) + datetime.timedelta(seconds=clock.read())

        @classmethod
        def utcnow(cls) -> datetime.datetime:
            return cls.now(datetime.UTC).replace(tzinfo=None)

    time.time = lambda: seconds() + clock.read()
    time.time_ns = lambda: nanoseconds() + int(clock.read() * 1e9)
    datetime.datetime = Moved  # type: ignore[misc]
