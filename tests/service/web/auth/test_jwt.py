"""JSON Web Tokens: which are believed, and where the keys come from."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from service.ground.errors import ApiError
from service.settings.auth import AuthSettings, JwtSettings
from service.settings.errors import SettingsError
from service.web.auth.authority import Authority, check_settings
from service.web.auth.jwks import KeySet, keys_of
from service.web.principal import Principal, Right
from tests.service.web.auth.signed_tokens import AUDIENCE, EC, ED, FORGED, ISSUER, KEYS, RSA, encoded, jwk, token


class Issuer:
    """An authority that takes the tokens of one issuer; asks go through the way of a request."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.path = directory / "jwks.json"
        self.publish(*KEYS)
        self.settings = JwtSettings(
            jwks_file=self.path, issuer=ISSUER, audience=AUDIENCE, **{"leeway_s": 0.0, **settings}
        )
        self.authority = Authority.of(AuthSettings(jwt=self.settings))

    def publish(self, *keys: dict[str, Any]) -> None:
        self.path.write_text(json.dumps({"keys": keys}))

    def ask(self, given: str) -> Principal:
        return asyncio.run(self.authority.principal([(b"authorization", f"Bearer {given}".encode())]))


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


def test_tokens_of_each_kind_of_key(issuer: Issuer) -> None:
    for given in (
        token(),
        token(algorithm="PS512"),
        token(EC, "ES256", "ec"),
        token(ED, "EdDSA", "ed"),
        token(name=None),
        token(aud=["other", AUDIENCE]),
    ):
        principal = issuer.ask(given)
        assert (principal.name, principal.rights) == ("42", {Right.READ})
        assert principal.claim("sub") == "42"


@pytest.mark.parametrize(
    ("scope", "rights", "views"),
    [
        ("openid upquery:read", {Right.READ}, ("*",)),
        (["upquery:read:story_*", "upquery:read:top"], {Right.READ}, ("story_*", "top")),
        ("upquery:admin", {Right.ADMIN}, ()),
        ("upquery:read:a[b]", set(), ()),
        ("UPQUERY:READ upquery:readall", set(), ()),
        (None, set(), ()),
        ({"upquery:read": 1}, set(), ()),
    ],
)
def test_rights_are_words_of_a_claim(issuer: Issuer, scope: Any, rights: set[Right], views: tuple[str, ...]) -> None:
    principal = issuer.ask(token(scope=scope))
    assert (principal.rights, principal.views) == (rights, views)


def test_rights_may_be_elsewhere_or_every_token_s(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path, rights_claim="realm.roles")
    assert issuer.ask(token(realm={"roles": ["upquery:admin"]})).rights == {Right.ADMIN}
    assert issuer.ask(token(**{"realm.roles": "upquery:read"})).rights == {Right.READ}
    issuer = Issuer(tmp_path, every_token_reads=True)
    assert issuer.ask(token(scope=None)).rights == {Right.READ}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
def test_forged_tokens_are_refused(issuer: Issuer, forge: Callable[[], str]) -> None:
    with pytest.raises(ApiError) as refused:
        issuer.ask(forge())
    assert refused.value.code == "unauthenticated"


def test_a_clock_may_be_a_little_off(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path, leeway_s=30.0)
    assert issuer.ask(token(exp=int(time.time()) - 5)).name == "42"


def test_only_public_keys_of_signatures_are_taken() -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    useless = [
        {"kty": "oct", "k": encoded(b"secret" * 8), "kid": "a"},
        {**jwk(RSA, "b"), "use": "enc"},
        {**jwk(RSA, "c"), "alg": "HS256"},
        jwk(weak, "d"),
        {**jwt.algorithms.RSAAlgorithm.to_jwk(RSA, as_dict=True), "kid": "e"},
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": ["RSA"]},
        "no object",
    ]
    assert [key.name for key in keys_of(json.dumps({"keys": [*useless, KEYS[1]]}).encode())] == ["ec"]
    for document in ({"keys": useless}, {"keys": {}}, [], {"keys": KEYS * 40}):
        with pytest.raises(ValueError):
            keys_of(json.dumps(document).encode())


def test_an_algorithm_that_the_key_names_is_the_only_one(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    issuer.publish(jwk(RSA, "rsa", alg="RS512"))
    assert issuer.ask(token(algorithm="RS512")).name == "42"
    with pytest.raises(ApiError):
        issuer.ask(token(algorithm="RS256"))


def test_keys_change_while_the_service_runs() -> None:
    """A key that is not known is asked for again; what cannot be had leaves all as it was."""
    published: list[bytes | None] = []

    async def load() -> bytes:
        document = published[-1]
        if document is None:
            raise OSError("away")
        return document

    async def main() -> None:
        keys = KeySet(load, "test", every_s=1000.0, again_s=0.0)
        published.append(None)
        with pytest.raises(ApiError) as away:
            await keys.named("rsa", "RS256")
        assert (away.value.code, away.value.retryable) == ("auth_unavailable", True)
        published.append(json.dumps({"keys": KEYS[:1]}).encode())
        assert len(await keys.named("rsa", "RS256")) == 1
        assert await keys.named("ec", "ES256") == []
        published.append(None)
        assert len(await keys.named("rsa", "RS256")) == 1
        assert await keys.named("ec", "ES256") == []
        published.append(json.dumps({"keys": KEYS[1:]}).encode())
        assert len(await keys.named("ec", "ES256")) == 1
        assert await keys.named("rsa", "RS256") == []

    asyncio.run(main())


def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="https"):
        JwtSettings(jwks_url="http://issuer.test/keys", issuer=ISSUER, audience=AUDIENCE)
    with pytest.raises(ValueError, match="password"):
        JwtSettings(jwks_url="https://a:b@issuer.test/keys", issuer=ISSUER, audience=AUDIENCE)
    with pytest.raises(ValueError, match="one of"):
        JwtSettings(issuer=ISSUER, audience=AUDIENCE)
    with pytest.raises(ValueError, match="tokens_file"):
        AuthSettings()
    bad = tmp_path / "jwks.json"
    bad.write_text("{}")
    with pytest.raises(SettingsError, match="jwks_file"):
        check_settings(AuthSettings(jwt=JwtSettings(jwks_file=bad, issuer=ISSUER, audience=AUDIENCE)))


class Keys(BaseHTTPRequestHandler):
    """Keys endpoint of an issuer."""

    answers: ClassVar[list[tuple[int, bytes]]] = []

    def do_GET(self) -> None:
        status, body = self.answers[-1]
        self.send_response(status)
        self.send_header("location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")  # type: ignore[attr-defined]
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing."""


def test_keys_are_had_from_a_url_and_nowhere_else() -> None:
    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = JwtSettings(jwks_url=f"http://127.0.0.1:{server.server_port}/keys", issuer=ISSUER, audience=AUDIENCE)
        document = json.dumps({"keys": KEYS}).encode()
        for status, body in ((500, document), (302, document), (200, b"x"), (200, document + b" " * (1 << 20))):
            Keys.answers.append((status, body))
            with pytest.raises(ApiError) as away:
                asyncio.run(KeySet.of(settings).named("rsa", "RS256"))
            assert away.value.code == "auth_unavailable"
        Keys.answers.append((200, document))
        assert len(asyncio.run(KeySet.of(settings).named("rsa", "RS256"))) == 1
        server.shutdown()
