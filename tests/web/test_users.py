"""Who calls: keys that are given out and taken back, tokens that others sign."""

from __future__ import annotations

import base64
import hmac
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from sonde.errors import IndexTooNew, InvalidRequest, StorageUnusable
from sonde.stores.users import Users
from sonde.web.accounts import Issuer, Keyring

SECRET = b"s" * 32
OTHER = b"o" * 32
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def shared_key(kid: str, secret: bytes) -> dict[str, Any]:
    packed = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    return {"kty": "oct", "kid": kid, "k": packed, "alg": "HS256"}


def rsa_key(kid: str) -> dict[str, Any]:
    return json.loads(RSAAlgorithm.to_jwk(RSA.public_key())) | {"kid": kid, "alg": "RS256"}


@pytest.fixture
def users(tmp_path: Path) -> Users:
    return Users(tmp_path / "users.json")


@pytest.fixture
def keyring(tmp_path: Path, users: Users) -> Keyring:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [shared_key("one", SECRET), rsa_key("two")]}))
    return Keyring((), users, Issuer(path, "https://login.example", "sonde"))


def sign(
    key: Any = SECRET, kid: str | None = "one", algorithm: str = "HS256", **claims: Any
) -> str:
    now = int(time.time())
    body = {"sub": "ann", "iss": "https://login.example", "aud": "sonde", "iat": now,
            "exp": now + 600} | claims  # fmt: skip
    body = {name: value for name, value in body.items() if value is not None}
    return jwt.encode(body, key, algorithm, headers={"kid": kid} if kid else {})


@pytest.mark.row("004-22")
def test_a_key_is_known_again_until_it_is_revoked(users, tmp_path):
    assert not users
    key, secret = users.add_key("ann")
    assert users.find_user(secret) == "ann"
    assert users.find_user(secret[:-1]) is None
    assert secret not in (tmp_path / "users.json").read_text()
    assert (tmp_path / "users.json").stat().st_mode & 0o077 == 0
    other = Users(tmp_path / "users.json")
    assert other.find_user(secret) == "ann"
    assert users.revoke(key.id) == 1
    assert other.find_user(secret) is None
    second = users.add_key("ann")[1]
    assert other.find_user(second) == "ann"
    assert users.revoke("ann") == 1
    assert other.find_user(second) is None
    for wrong in ("", "../x", "An na", "x" * 65):
        with pytest.raises(InvalidRequest):
            users.add_key(wrong)


GOOD = {
    "forged with the right secret": lambda: forge({"alg": "HS256", "kid": "one"}, SECRET),
    "just over": lambda: sign(exp=int(time.time()) - 15),
    "by a clock that is ahead": lambda: sign(iat=int(time.time()) + 15, nbf=int(time.time()) + 15),
    "shared secret": sign,
    "rsa": lambda: sign(RSA, "two", "RS256"),
    "several audiences": lambda: sign(aud=["other", "sonde"]),
}


@pytest.mark.row("004-23")
@pytest.mark.parametrize("case", GOOD)
def test_a_signed_token_names_its_user(keyring, case):
    assert keyring.find_user(GOOD[case]()) == "ann"


PUBLIC = [
    RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.PKCS1),
]


def pack(value: bytes | dict[str, Any]) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forge(head: dict[str, Any], secret: bytes | None = None, digest: str = "sha256") -> str:
    """A token as no library would make it: every claim right, signed with HMAC or not at all."""
    claims = sign().split(".")[1]
    body = f"{pack(head)}.{claims}"
    signature = hmac.digest(secret, body.encode(), digest) if secret is not None else b""
    return f"{body}.{pack(signature)}"


def embed_key() -> str:
    """A token that brings the key it is to be checked with."""
    own = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key = json.loads(RSAAlgorithm.to_jwk(own.public_key()))
    now = int(time.time())
    claims = {"sub": "ann", "iss": "https://login.example", "aud": "sonde", "iat": now,
              "exp": now + 600}  # fmt: skip
    return jwt.encode(claims, own, "RS256", headers={"kid": "two", "jwk": key, "jku": "http://x"})


WRONG = {
    "another secret": lambda: sign(OTHER),
    "unknown key": lambda: sign(kid="three"),
    "no key named": lambda: sign(kid=None),
    "a key that is no name": lambda: forge({"alg": "HS256", "kid": ["one"]}, SECRET),
    "another issuer": lambda: sign(iss="https://evil.example"),
    "issuer with a tail": lambda: sign(iss="https://login.example.evil"),
    "without issuer": lambda: sign(iss=None),
    "another audience": lambda: sign(aud="shop"),
    "without audience": lambda: sign(aud=None),
    "expired": lambda: sign(exp=int(time.time()) - 60),
    "not yet": lambda: sign(nbf=int(time.time()) + 600),
    "issued in the future": lambda: sign(iat=int(time.time()) + 600),
    "without end": lambda: sign(exp=None),
    "without beginning": lambda: sign(iat=None),
    "nobody": lambda: sign(sub=None),
    "no user's name": lambda: sign(sub="../../ann"),
    "not signed": lambda: forge({"alg": "none", "kid": "one"}),
    "not signed, as RSA": lambda: forge({"alg": "none", "kid": "two"}),
    "not signed, spelled otherwise": lambda: forge({"alg": "nOnE", "kid": "one"}),
    "signature cut off": lambda: sign().rpartition(".")[0] + ".",
    "public key as secret (PEM)": lambda: forge({"alg": "HS256", "kid": "two"}, PUBLIC[0]),
    "public key as secret (DER)": lambda: forge({"alg": "HS256", "kid": "two"}, PUBLIC[1]),
    "public key as secret (PKCS 1)": lambda: forge({"alg": "HS256", "kid": "two"}, PUBLIC[2]),
    "secret of another key": lambda: forge({"alg": "HS256", "kid": "two"}, SECRET),
    "another algorithm": lambda: forge({"alg": "HS384", "kid": "one"}, SECRET, "sha384"),
    "its own key": embed_key,
    "what must be understood": lambda: forge({"alg": "HS256", "kid": "one", "crit": ["x"]}, SECRET),
    "nonsense": lambda: "a.b.c",
    "huge": lambda: "a." + "b" * 1_000_000 + ".c",
}


@pytest.mark.row("004-23")
@pytest.mark.parametrize("case", WRONG)
def test_any_other_token_names_nobody(keyring, case):
    assert keyring.find_user(WRONG[case]()) is None


def test_keys_that_are_made_and_ended_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    Users(path).add_key("old")

    def change(number: int) -> None:
        if number % 4:
            Users(path).add_key(f"user{number}")
        else:
            Users(path).revoke(f"gone{number}")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(change, range(64)))
    users = Users(path)
    assert len(users.list_keys()) == 49
    assert all(users.is_shut_out(f"gone{number}", 0) for number in range(0, 64, 4))


def test_keys_rotate_without_a_restart(keyring, tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [shared_key("new", OTHER)]}))
    os.utime(path, ns=(1, 1))
    assert keyring.find_user(sign(OTHER, "new")) == "ann"
    assert keyring.find_user(sign()) is None
    path.write_text("{")  # being written
    assert keyring.find_user(sign(OTHER, "new")) == "ann"


def test_a_user_who_is_shut_out_stays_out_with_older_tokens(keyring, users):
    old = sign(iat=int(time.time()) - 100)
    users.revoke("ann")
    assert keyring.find_user(old) is None
    assert keyring.find_user(sign(iat=int(time.time()) + 10)) == "ann"
    users.add_key("ann")  # let in again, by a key
    assert keyring.find_user(old) is None


def test_weak_or_missing_key_sets_are_refused_at_the_start(tmp_path, users):
    for text in ("{", '{"keys": []}', json.dumps({"keys": [shared_key("x", b"short")]})):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InvalidRequest):
            Keyring((), users, Issuer(tmp_path / "bad.json", "i", "a"))


@pytest.mark.row("004-22")
def test_a_server_takes_keys_given_out_while_it_runs(start, tmp_path):
    environ = {"SONDE_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "sonde.cli.main"]

    def run(*words: str) -> str:
        done = subprocess.run([*command, *words], env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    server = start("-m", "sonde.cli.main", "--json", "serve", "--port", "0", cwd=tmp_path,
                   env=environ)  # fmt: skip
    assert server.ask("/api/projects")[0] == 200, "with the key of the installation"
    key = run("users", "add", "ann")
    bearer = {"Authorization": f"Bearer {key}"}
    assert server.ask("/api/projects", headers=bearer)[0] == 200
    assert "ann" in run("users", "list")
    run("users", "revoke", "ann")
    assert server.ask("/api/projects", headers=bearer)[0] == 401
    assert server.ask("/api/projects")[0] == 200, "the operator is not locked out"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"keys": [{"id": 1}]}', '{"keys": 7}'])
def test_a_damaged_file_of_keys_lets_nobody_in_and_is_not_written_over(
    keyring, users, tmp_path, content
):
    path = tmp_path / "users.json"
    secret = users.add_key("ann")[1]
    users.revoke("bob")
    path.write_text(content)
    for use in (
        lambda: bool(users),
        lambda: keyring.find_user(secret),
        lambda: keyring.find_user(sign(sub="bob", iat=1)),
        lambda: users.add_key("eve"),
        lambda: users.revoke("ann"),
        users.list_keys,
    ):
        with pytest.raises(StorageUnusable):
            use()
    assert path.read_text() == content


def test_a_file_of_keys_of_a_later_version_is_refused(users, tmp_path):
    (tmp_path / "users.json").write_text('{"format": 99, "keys": []}')
    with pytest.raises(IndexTooNew):
        users.add_key("ann")
