import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from api import Api, NotReady
from server import HOST, port_near


class Answers(BaseHTTPRequestHandler):
    """Responds with 503 and what is missing."""

    def do_GET(self):
        self.send_response(503)
        self.end_headers()
        self.wfile.write(b"payments.tiles is not running")

    def log_message(self, *_):
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer((HOST, 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"{HOST}:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_server_that_is_not_ready_says_what_is_missing(address):
    with pytest.raises(NotReady, match=r"503 payments\.tiles is not running"):
        Api(address).require_ready()


def test_nobody_listening_is_not_ready():
    with pytest.raises(NotReady, match="no answer"):
        Api(f"{HOST}:{port_near(0)}").require_ready()


def test_a_free_port_is_kept_and_a_taken_one_is_not():
    free = port_near(0)
    assert port_near(free) == free
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        assert port_near(taken.getsockname()[1]) != taken.getsockname()[1]
