import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from api import Api, NotReady
from server import HOST, port_near


class Answers(BaseHTTPRequestHandler):
    """Says 503 with what is missing, then 200; features echo their keys."""

    protocol_version = "HTTP/1.1"
    missing = "payments.tiles is not running"

    def do_GET(self):
        self.answer(503 if self.missing else 200, self.missing)

    def do_POST(self):
        keys = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["keys"]
        rows = [{"card": key, "values": {"payments_7d": 1, "spend_1h": None}} for key in keys]
        self.answer(200, json.dumps({"rows": rows}))

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

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


def test_rows_come_in_the_order_of_their_keys_and_values_are_counted(address):
    api = Api(address)
    assert [row["card"] for row in api.features("CardSpend", ["c2", "c1"])] == ["c2", "c1"]
    assert api.values_read == 4


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
