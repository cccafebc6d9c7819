"""JSON Web Tokens of an issuer, and forged ones: every way of forging one that is known."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

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


def swapped(given: str, **changes: Any) -> str:
    """The token with other claims and its old signature."""
    header, _, signature = given.split(".")
    return f"{header}.{encoded(claims(**changes))}.{signature}"


def unsigned(algorithm: str) -> str:
    return f"{encoded({'alg': algorithm, 'typ': 'JWT', 'kid': 'rsa'})}.{encoded(claims())}."


def keyed_by_public_key(secret: bytes) -> str:
    """HS256 whose secret is what everybody knows (a confusion of algorithms)."""
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
