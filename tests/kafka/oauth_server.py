"""A token endpoint with OAuth client credentials, and the keys with which a broker verifies its tokens."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from headrace.embedded_servers.ports import HOST

AUDIENCE, KEY_ID = "kafka", "of-this-run"
LIFETIME_S = 300


class Issuer:
    """Gives a client who knows its secret a JWT signed by RS256, good for five minutes."""

    def __init__(self, client: str, secret: str) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
        self._client, self.given = client, 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                issuer.answer_token(self)

            def do_GET(self) -> None:
                send(self, 200, issuer.keys())

            def log_message(self, *_said: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._url = f"http://{HOST}:{self._server.server_address[1]}"
        self.token_url, self.keys_url = f"{self._url}/token", f"{self._url}/keys"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer_token(self, asked: BaseHTTPRequestHandler) -> None:
        if asked.headers.get("authorization") != f"Basic {self._basic}":
            send(asked, 401, {"error": "invalid_client"})
            return
        self.given += 1
        send(asked, 200, {"access_token": self._token(), "token_type": "Bearer", "expires_in": LIFETIME_S})

    def keys(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        n, e = _bytes(numbers.n), _bytes(numbers.e)
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": _text(n), "e": _text(e)}]}

    def _token(self) -> str:
        now = int(time.time())
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        claims = {"sub": self._client, "aud": AUDIENCE, "iat": now, "exp": now + LIFETIME_S, "scope": "kafka"}
        signed = ".".join(_text(json.dumps(part).encode()) for part in (head, claims))
        return f"{signed}.{_text(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def send(asked: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    asked.send_response(status)
    asked.send_header("content-type", "application/json")
    asked.send_header("content-length", str(len(data)))
    asked.end_headers()
    asked.wfile.write(data)


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
