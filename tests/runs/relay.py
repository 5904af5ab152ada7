"""A server on this machine, and an address of it that can be cut off and come back."""

import socket
import threading
import urllib.request
from contextlib import suppress


class Relay:
    """An address at which a server can be reached, or not. It is nobody else's meanwhile."""

    def __init__(self, port: int):
        self._port = port
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.address = self._kept.getsockname()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.back()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.address[1]}"

    def back(self) -> None:
        self._listening = socket.create_server(self.address, reuse_port=True)
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def away(self) -> None:
        """As if it were killed."""
        with self._lock:
            for each in (self._listening, *self._open):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
            self._open.clear()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                with self._lock:
                    if listening.fileno() < 0:  # it went away just now, and what it took goes with it
                        near.close()
                        far.close()
                        return
                    self._open += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def answers(port: int) -> bool:
    with suppress(OSError):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).status == 200
    return False
