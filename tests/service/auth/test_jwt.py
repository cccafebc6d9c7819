"""JSON Web Tokens: which are believed, and every way of forging one that is known."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from service.auth.authority import Authority, check_settings
from service.auth.jwks import KeySet, keys_of
from service.auth.principal import Principal, Right
from service.errors import ApiError
from service.settings.auth import AuthSettings, JwtSettings
from service.settings.errors import SettingsError

ISSUER, AUDIENCE = "https://issuer.test/", "upquery"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(key: Any, name: str, **more: Any) -> dict[str, Any]:
    kinds = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    algorithm = next(algorithm for kind, algorithm in kinds.items() if isinstance(key, kind))
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig", **more}


KEYS = [jwk(RSA, "rsa"), jwk(EC, "ec"), jwk(ED, "ed")]


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    own = {"iss": ISSUER, "aud": AUDIENCE, "exp": now + 60, "iat": now, "sub": "42", "scope": "upquery:read"}
    return {name: value for name, value in {**own, **changes}.items() if value is not None}


def token(key: Any = RSA, algorithm: str = "RS256", name: str | None = "rsa", **changes: Any) -> str:
    headers = {} if name is None else {"kid": name}
    return jwt.encode(claims(**changes), key, algorithm, headers)


def encoded(part: Any) -> str:
    return base64.urlsafe_b64encode(part if isinstance(part, bytes) else json.dumps(part).encode()).decode().rstrip("=")


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


def swapped(given: str, **changes: Any) -> str:
    """The token with other claims and its old signature."""
    header, _, signature = given.split(".")
    return f"{header}.{encoded(claims(**changes))}.{signature}"


def unsigned(algorithm: str) -> str:
    return f"{encoded({'alg': algorithm, 'typ': 'JWT', 'kid': 'rsa'})}.{encoded(claims())}."


def keyed_by_public_key(secret: bytes) -> str:
    """HS256 whose secret is what everybody knows (a confusion of algorithms)."""
    import hashlib
    import hmac

    text = f"{encoded({'alg': 'HS256', 'typ': 'JWT', 'kid': 'rsa'})}.{encoded(claims())}"
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), hashlib.sha256))}"


FORGED: dict[str, Callable[[], str]] = {
    "no algorithm": lambda: unsigned("none"),
    "no algorithm, in other letters": lambda: unsigned("nOnE"),
    "the public key as a secret": lambda: keyed_by_public_key(PEM),
    "the key's document as a secret": lambda: keyed_by_public_key(json.dumps(KEYS[0]).encode()),
    "an empty secret": lambda: keyed_by_public_key(b""),
    "another key": lambda: token(OTHER_RSA),
    "another key, unnamed": lambda: token(OTHER_RSA, name=None),
    "a key of another name": lambda: token(name="ec"),
    "an unknown key": lambda: token(name="unknown"),
    "another algorithm than the key's": lambda: token(EC, "ES256", "rsa"),
    "a path as a name": lambda: token(OTHER_RSA, name="../../dev/null"),
    "a key in the header": lambda: jwt.encode(claims(), OTHER_RSA, "RS256", {"jwk": jwk(OTHER_RSA, "x"), "kid": "rsa"}),
    "keys elsewhere": lambda: jwt.encode(claims(), OTHER_RSA, "RS256", {"jku": "https://evil.test/", "kid": "rsa"}),
    "other claims": lambda: swapped(token(), sub="1"),
    "no signature": lambda: token().rpartition(".")[0] + ".",
    "a signature of zeros": lambda: token(EC, "ES256", "ec").rpartition(".")[0] + "." + encoded(bytes(64)),
    "something critical": lambda: jwt.encode(claims(), RSA, "RS256", {"kid": "rsa", "crit": ["x"], "x": 1}),
    "expired": lambda: token(exp=int(time.time()) - 1),
    "no end": lambda: token(exp=None),
    "an end that is no number": lambda: token(exp="never"),
    "an end beyond all numbers": lambda: jwt.encode(claims(exp=10**400), RSA, "RS256", {"kid": "rsa"}),
    "not yet": lambda: token(nbf=int(time.time()) + 60),
    "issued tomorrow": lambda: token(iat=int(time.time()) + 86_400),
    "another issuer": lambda: token(iss="https://evil.test/"),
    "an issuer that starts so": lambda: token(iss=ISSUER + "x"),
    "no issuer": lambda: token(iss=None),
    "another audience": lambda: token(aud="other"),
    "an audience that starts so": lambda: token(aud="upquery2"),
    "no audience": lambda: token(aud=None),
    "no audiences": lambda: token(aud=[]),
    "claims that are a list": lambda: f"{token().split('.')[0]}.{encoded([])}.x",
    "nothing": lambda: "..",
    "no JSON": lambda: f"{encoded(b'x')}.{encoded(b'y')}.{encoded(b'z')}",
    "a header that is a list": lambda: f"{encoded([])}.{encoded(claims())}.x",
    "a header of numbers": lambda: f"{encoded({'alg': 1, 'kid': 2})}.{encoded(claims())}.x",
    "deep JSON": lambda: f"{encoded(b'[' * 6000)}.{encoded(claims())}.x",
}


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
