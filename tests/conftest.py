"""Fixtures live in modules named by what they provide."""

import os
import shutil
import tempfile
from pathlib import Path

#: What tests and all that they start trust by default: nobody, by a certificate without a private key. Nothing they
#: connect to is beyond this machine, and the system's authorities would be read for each client and each connection
#: that might be encrypted: 50 ms of processor time.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "fixtures" / "authority.pem")

#: Memory that must be free to hold the temporary files of tests and all that they start: databases are made and
#: dropped for hundreds of tests, which takes a disk twice the time. Two test processes took at most 0.8 GiB.
ROOM_BYTES = 4 << 30
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
    tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)

pytest_plugins = [
    f"tests.fixtures.{name}"
    for name in ("seeds", "servers", "scopes", "postgres", "mariadb", "kafka", "spark", "corpus")
]
