"""Seeds for separate purposes from one seed."""

import hashlib


def derived_seed(*parts: int | str) -> int:
    """A 63-bit seed that depends on every part, such as (seed, 'order', epoch)."""
    content = "\x00".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big") >> 1
