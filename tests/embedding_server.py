"""A local HTTP server that speaks the OpenAI embeddings format, fails when it is told to, and keeps what arrived."""

import json
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

import numpy as np

from tests.provider_server import replying

Reply = tuple[int, dict[str, str], bytes]
"""HTTP status, headers and body."""
Answer = Callable[[list[str]], Reply]


@dataclass
class EmbeddingServer:
    """The running server. The replies in ``faults`` are given first, one a request; then ``answer`` has its turn."""

    url: str
    answer: Answer
    faults: list[Reply] = field(default_factory=list)
    inputs: list[list[str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """Every text that arrived, in order."""
        return [text for texts in self.inputs for text in texts]


def vector(text: str, dimensions: int = 8) -> list[float]:
    """What the server answers for a text: a direction of its own, of length 3."""
    row = np.random.default_rng(zlib.crc32(text.encode())).normal(size=dimensions)
    return (3 * row / np.linalg.norm(row)).tolist()


def vectors(rows: Sequence[Sequence[float]], tokens: int = 5) -> Reply:
    """A proper answer with these rows, last one first: their order is in their index."""
    data = [{"object": "embedding", "index": place, "embedding": list(row)} for place, row in enumerate(rows)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return reply({"object": "list", "model": "m", "data": data[::-1], "usage": usage})


def reply(body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    return status, headers or {}, json.dumps(body).encode()


def fault(status: int, message: str = "oops", **headers: str) -> Reply:
    """An error of the provider; ``retry_after="2"`` becomes the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return reply({"error": {"message": message, "type": "server_error"}}, status, named)


MALFORMED: Reply = (200, {}, b'{"data": [')


@contextmanager
def embedding_server(
    answer: Answer = lambda texts: vectors([vector(text) for text in texts]), faults: Sequence[Reply] = ()
) -> Iterator[EmbeddingServer]:
    """Serve on 127.0.0.1 for the time of the block."""
    lock = threading.Lock()

    def answer_one(_path: str, headers: Message, body: bytes) -> Reply:
        texts = json.loads(body)["input"]
        with lock:
            served.inputs.append(texts)
            served.headers.append(dict(headers.items()))
            fails = served.faults.pop(0) if served.faults else None
        status, more, data = fails or served.answer(texts)
        return status, {"Content-Type": "application/json", **more}, data

    with replying(answer_one) as url:
        served = EmbeddingServer(f"{url}/v1", answer, list(faults))
        yield served
