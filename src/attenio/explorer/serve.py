"""The explorer on loopback: files from memory, and nothing else.

Only this computer reaches it, and only pages of its own: a foreign Host is refused (another site's name that points
here), and so is a foreign Origin. It reads no path from disk, so no request can ask for one. A request has some seconds
and a hundred header lines, and only so many are served at once: its work is bounded.
"""

import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8", ".wasm": "application/wasm", ".zip": "application/zip",
    ".json": "application/json",
}  # fmt: skip
_SECONDS = 10.0
_AT_ONCE = 32
# Pyodide compiles WebAssembly and makes functions; nothing else than our own files may run or be asked.
_POLICY = (
    "default-src 'self'; img-src 'self' data:; script-src 'self' 'wasm-unsafe-eval' 'unsafe-eval';"
    " style-src 'self' 'unsafe-inline'"
)


class Explorer(ThreadingHTTPServer):
    """A server of a fixed set of files."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, files: dict[str, bytes], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.files = files
        here = self.server_address[1]
        self.hosts = {f"127.0.0.1:{here}", f"localhost:{here}"}
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, or close it where too many are open."""
        if not self._free.acquire(timeout=_SECONDS):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, which ends after some seconds whatever comes or does not."""
        ended = threading.Timer(_SECONDS, _hang_up, [request])
        ended.daemon = True
        ended.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            ended.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is no news."""


def _hang_up(connection: socket.socket) -> None:
    """End a connection that another thread waits on."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Explorer
    timeout = _SECONDS
    server_version, sys_version = "attenio", ""

    def do_GET(self) -> None:
        """One file."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """What one file is."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            self.send_error(HTTPStatus.FORBIDDEN, "this page is for this computer only")
            return
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.server.hosts}:
            self.send_error(HTTPStatus.FORBIDDEN, "pages of other sites may not ask here")
            return
        name = self.path.partition("?")[0].lstrip("/") or "index.html"
        content = self.server.files.get(name)
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND, "there is no such file")
            return
        self.send_response(HTTPStatus.OK)
        suffix = f".{name.rpartition('.')[2]}"
        headers = {
            "Content-Type": _TYPES.get(suffix, "application/octet-stream"), "Content-Length": str(len(content)),
            "Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
        }  # fmt: skip
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""
