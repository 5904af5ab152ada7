"""Keeps the progress bars and logs of DSPy and gepa off the terminal, where a compile shows its own."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tqdm

_LOGGERS = ("dspy", "gepa")
_lock = threading.RLock()


@contextmanager
def silence_output() -> Iterator[None]:
    """Inside the block, draw no tqdm bar and let only errors of the optimizers' logs through."""
    drawn = tqdm.tqdm.__init__
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}

    def disable_bar(bar: Any, *args: Any, **options: Any) -> None:
        drawn(bar, *args, **{**options, "disable": True})

    with _lock:
        tqdm.tqdm.__init__ = disable_bar
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            tqdm.tqdm.__init__ = drawn
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
