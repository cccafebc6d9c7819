"""Fixtures live in modules named by what they provide."""

import os
from pathlib import Path

#: What tests and all that they start trust by default: nobody, by a certificate without a private key. Nothing they
#: connect to is beyond this machine, and the system's authorities would be read for each client and each connection
#: that might be encrypted: 50 ms of processor time.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "fixtures" / "authority.pem")

pytest_plugins = [
    f"tests.fixtures.{name}"
    for name in ("seeds", "servers", "scopes", "postgres", "mariadb", "kafka", "spark", "corpus")
]
