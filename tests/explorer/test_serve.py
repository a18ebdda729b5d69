"""Laws of the explorer's server: this computer only, its own pages only, its own files only."""

import random
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from attenio.explorer import serve
from attenio.explorer.serve import Explorer


@pytest.fixture(scope="module")
def server() -> Iterator[Explorer]:
    with Explorer({"index.html": b"<p>here</p>", "pyodide/a.wasm": b"\0asm"}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def asked(
    server: Explorer, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, bytes, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_it_listens_to_this_computer_only(server: Explorer) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_its_files_are_served_with_their_kind_and_a_policy(server: Explorer) -> None:
    status, body, headers = asked(server, "/?n=4K")
    assert (status, body) == (200, b"<p>here</p>")
    assert (
        headers["Content-Type"].startswith("text/html") and "default-src 'self'" in headers["Content-Security-Policy"]
    )
    assert asked(server, "/pyodide/a.wasm")[2]["Content-Type"] == "application/wasm"
    assert asked(server, "/", method="HEAD")[:2] == (200, b"")


@pytest.mark.parametrize(
    "host", ["example.com", "attacker.test:80", "", "127.0.0.1", "localhost:1", "127.0.0.1.example.com"]
)
def test_a_foreign_host_is_refused(server: Explorer, host: str) -> None:
    assert asked(server, "/", {"Host": host})[0] == 403


def test_a_foreign_origin_is_refused_and_its_own_is_not(server: Explorer) -> None:
    assert asked(server, "/", {"Origin": "https://example.com"})[0] == 403
    assert asked(server, "/", {"Origin": "null"})[0] == 403
    assert asked(server, "/", {"Origin": server.url.rstrip("/")})[0] == 200


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/etc/passwd", "//etc/passwd", "/%2e%2e/x", "/pyodide/", "/nothing"]
)
def test_no_path_leads_elsewhere(server: Explorer, path: str) -> None:
    assert asked(server, path)[0] == 404


def test_it_survives_a_thousand_malformed_requests(server: Explorer) -> None:
    draw = random.Random(0)
    for number in range(1000):
        noise = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 200)))
        start = draw.choice(
            [
                b"",
                b"GET / HTTP/1.1\r\n",
                b"GET /" + noise[:20] + b" HTTP/9.9\r\n\r\n",
                b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            ]
        )
        with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=60) as connection:
            connection.sendall(start + noise)
            if number % 100 == 0:
                assert asked(server, "/")[0] == 200
    assert asked(server, "/")[0] == 200


def test_many_connections_that_say_nothing_do_not_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_SECONDS", 0.2)
    with Explorer({"index.html": b"<p>here</p>"}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        silent = [socket.create_connection(server.server_address[:2]) for _ in range(2 * serve._AT_ONCE)]
        dripping = silent[0]
        dripping.sendall(b"GET / HTT")
        assert asked(server, "/")[0] == 200
        assert threading.active_count() < 3 * serve._AT_ONCE
        dripping.settimeout(60)
        assert dripping.recv(100) == b""  # whoever takes longer is hung up on
        for connection in silent:
            connection.close()
        server.shutdown()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_but_reading_is_answered(server: Explorer, method: str) -> None:
    assert asked(server, "/", method=method)[0] == 501
