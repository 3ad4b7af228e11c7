"""Tokens are stored as hashes in a file that only its owner may read; an untrusted file is rejected."""

import stat
import threading
from pathlib import Path

import pytest

from headrace.server.auth.api_tokens import (
    ApiToken,
    TokenFileError,
    TokenNameError,
    create_token,
    hash_token,
    read_tokens,
    revoke_token,
    tokens_file,
)
from headrace.server.auth.scopes import Scope, UnknownScopeError, parse_scopes
from headrace.server.auth.signed_tokens import TokenPurpose, TokenSigner
from headrace.storage.private_files import FileNotPrivateError

READ = frozenset({Scope.READ})


def test_a_token_is_random_recognisable_and_kept_as_a_hash_alone(tmp_path: Path) -> None:
    made = [create_token(tmp_path / "state", f"n{number}", READ) for number in range(20)]
    assert len(set(made)) == 20
    assert all(token.startswith("hr_") and len(token) == 46 for token in made)
    kept = tokens_file(tmp_path / "state").read_text()
    assert not any(token[3:] in kept for token in made)
    assert [token.digest for token in read_tokens(tmp_path / "state")] == [hash_token(one.encode()) for one in made]


def test_the_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    create_token(tmp_path, "a", READ)
    TokenSigner.from_state_folder(tmp_path)
    for file in (tokens_file(tmp_path), tmp_path / "own.secret"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["own.secret", "tokens.json"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    create_token(tmp_path, "a", READ)
    TokenSigner.from_state_folder(tmp_path)
    for file in (tokens_file(tmp_path), tmp_path / "own.secret"):
        file.chmod(mode)
        with pytest.raises(FileNotPrivateError, match=f"mode {mode:04o}.*chmod 600"):
            read_tokens(tmp_path) if "tokens" in file.name else TokenSigner.from_state_folder(tmp_path)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"tokens": [{}]}', '{"tokens": [{"name": "a", "scopes": ["all"], "sha256": "00", "made": ""}]}',
     '{"tokens": [{"name": "a", "scopes": ["read"], "sha256": "00", "made": ""}]}'],
)  # fmt: skip
def test_a_file_that_is_no_file_of_tokens_is_refused(tmp_path: Path, content: str) -> None:
    create_token(tmp_path, "a", READ)
    tokens_file(tmp_path).write_text(content)
    with pytest.raises(TokenFileError, match="cannot be read"):
        read_tokens(tmp_path)


def test_many_at_once_lose_no_token(tmp_path: Path) -> None:
    threads = [threading.Thread(target=create_token, args=(tmp_path, f"n{n}", READ)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {token.name for token in read_tokens(tmp_path)} == {f"n{n}" for n in range(12)}


def test_a_revoked_token_is_gone_and_the_others_stay(tmp_path: Path) -> None:
    for name in "abc":
        create_token(tmp_path, name, READ)
    assert [token.name for token in revoke_token(tmp_path, "b")] == ["a", "c"]
    with pytest.raises(TokenNameError, match="There is a, c"):
        revoke_token(tmp_path, "b")


@pytest.mark.parametrize("name", ["", "a b", "../a", "a\n", "<b>", "é", "-a", "x" * 65])
def test_a_name_that_could_mean_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TokenNameError):
        create_token(tmp_path, name, READ)


def test_a_name_is_given_once(tmp_path: Path) -> None:
    create_token(tmp_path, "a", READ)
    with pytest.raises(TokenNameError, match="headrace token revoke a"):
        create_token(tmp_path, "a", READ)


@pytest.mark.parametrize("written", ["", "open", "root", "read predict", "read,,predict"])
def test_a_scope_that_there_is_not_is_refused(written: str) -> None:
    with pytest.raises(UnknownScopeError, match="read, predict, write, admin"):
        parse_scopes(written)


def test_the_words_of_a_token_survive_being_written(tmp_path: Path) -> None:
    create_token(tmp_path, "a", frozenset({Scope.READ, Scope.PREDICT}))
    (token,) = read_tokens(tmp_path)
    assert token == ApiToken("a", frozenset({Scope.READ, Scope.PREDICT}), token.digest, token.created_at)


def test_several_who_begin_at_once_share_one_secret(tmp_path: Path) -> None:
    signed: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: signed.append(
                TokenSigner.from_state_folder(tmp_path).sign(TokenPurpose.INTERNAL, "own", 100)
            )
        )
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(signed) == 12
    assert len(set(signed)) == 1


def test_a_pass_is_good_for_its_purpose_and_its_time_and_for_nothing_else() -> None:
    passes = TokenSigner(b"secret")
    signed = passes.sign(TokenPurpose.SESSION, "me", 100)
    assert passes.verify(TokenPurpose.SESSION, signed, 99) == "me"
    assert passes.verify(TokenPurpose.SESSION, signed, 100) is None
    assert passes.verify(TokenPurpose.INTERNAL, signed, 99) is None
    assert TokenSigner(b"another").verify(TokenPurpose.SESSION, signed, 99) is None
    for place in range(len(signed)):
        changed = signed[:place] + ("0" if signed[place] != "0" else "1") + signed[place + 1 :]
        assert passes.verify(TokenPurpose.SESSION, changed, 99) is None
    for nonsense in ("", ".", "..", "me.100", "me.100.", "é.100.0", "me.200" + signed[6:]):
        assert passes.verify(TokenPurpose.SESSION, nonsense, 99) is None
