"""A TCP proxy on loopback that a test can cut: nothing gets through, and nobody is told. Healed, it passes on what was held."""

import contextlib
import socket
import threading


class CuttableProxy:
    """Passes connections on to ``target`` (HOST:PORT), until it is cut.

    Then bytes are held back in both directions, as by a network that drops packets. Connections stay open, and new ones are
    accepted and not answered: both ends see silence only.
    """

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self._target = host, int(port)
        self._through = threading.Event()
        self._through.set()
        self._closed = threading.Event()
        self._sockets = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        self._through.clear()

    def heal(self):
        self._through.set()

    def close(self):
        self._closed.set()
        self._through.set()
        for each in (self._server, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while not self._closed.is_set():
                client, _ = self._server.accept()
                self._sockets.append(client)
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client):
        self._through.wait()
        if self._closed.is_set():
            client.close()
            return
        try:
            server = socket.create_connection(self._target, 10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        self._sockets.append(server)
        threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
        self._pass_on(server, client)

    def _pass_on(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._through.wait()
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
