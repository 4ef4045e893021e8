"""Looking whether a Ray cluster answers at an address: Ray itself waits there for minutes, deaf to Ctrl-C."""

import os
import socket

from ray._private.services import canonicalize_bootstrap_address

from tune_tickets.errors import ResourceError

_SECONDS = 10.0
_SETTINGS = 4
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])
"""How HTTP/2, which Ray's head speaks, is opened: a fixed text and an empty frame of settings (RFC 9113, 3.4)."""
_FRAME_BYTES = 9


def check_address(address: str) -> None:
    """Refuse an address where nobody answers, or somebody else; 'auto' is looked up as Ray does it."""
    try:
        found = canonicalize_bootstrap_address(address)
    except ValueError:
        raise ResourceError(
            f"resources.address={address!r} is no address: give host:port, such as 10.0.0.7:6379, or 'auto' on a node "
            "of the cluster"
        ) from None
    host, _, port = (found or "").rpartition(":")
    if not port.isdecimal():
        return  # nothing to look at
    try:
        speaks = _speaks(host.strip("[]"), int(port))
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"{host}:{port}: {error}") from None
    if not speaks:
        raise ConnectionError(f"who listens at {host}:{port} is no Ray head: its port is 6379 unless set otherwise")


def _speaks(host: str, port: int) -> bool:
    with socket.create_connection((host, port), timeout=_SECONDS) as stream:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return True  # what it says is encrypted
        stream.sendall(_GREETING)
        answer = stream.recv(_FRAME_BYTES, socket.MSG_WAITALL)
        return len(answer) == _FRAME_BYTES and answer[3] == _SETTINGS
