"""A server that answers a byte at a time, for as long as anybody listens: no single wait of its client is long.

with dripping("body") as url: ...
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PAUSE = 0.02
LONGEST = 40.0
"""Seconds between two bytes, and after which the server lets go in any case."""

BEGUN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BEFORE = {
    "headers": b"HTTP/1.1 200 OK\r\nX-Padding: ",
    "body": BEGUN + b"Content-Length: 1000000\r\n\r\n",
    "chunks": BEGUN + b"Transfer-Encoding: chunked\r\n\r\n",
}
"""Where it begins to drip, and what it sends before."""


@contextmanager
def dripping(where: str) -> Iterator[str]:
    """Serve on 127.0.0.1 for the time of the block; gives the `base_url`."""
    over = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def drip(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(1 << 20)
            client.sendall(BEFORE[where])
            for _ in range(int(LONGEST / PAUSE)):
                client.sendall(b"1\r\n \r\n" if where == "chunks" else b" ")
                if over.wait(PAUSE):
                    return

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=drip, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
    finally:
        over.set()
        server.close()
