"""The one door to randomness: names and tokens that must be unique or unguessable."""

import secrets
from typing import Protocol


class Ids(Protocol):
    """What anybody who needs something unique asks for."""

    def token(self, size_bytes: int = 16) -> str:
        """An unguessable text of letters and digits: the given number of random bytes in hexadecimal."""

    def name(self) -> str:
        """A text nobody else has, which may be guessed: for names of requests, not for secrets."""

    def fraction(self) -> float:
        """A number in [0, 1), for spreading retries."""


class SystemIds:
    """Ids from the machine's random source."""

    def __init__(self) -> None:
        """Names of ours begin with a random text of their own."""
        self._begin = secrets.token_hex(8)
        self._count = 0

    def token(self, size_bytes: int = 16) -> str:
        """See Ids."""
        return secrets.token_hex(size_bytes)

    def name(self) -> str:
        """See Ids."""
        self._count += 1
        return f"{self._begin}{self._count:08x}"

    def fraction(self) -> float:
        """See Ids."""
        return secrets.randbelow(1 << 53) / (1 << 53)


class CountedIds:
    """Ids that count: the same in every run, for tests and simulations."""

    def __init__(self, prefix: str = "") -> None:
        """Ids begin with the prefix and count from 1."""
        self._prefix = prefix
        self._count = 0

    def token(self, size_bytes: int = 16) -> str:
        """See Ids."""
        self._count += 1
        return f"{self._prefix}{self._count:0{size_bytes * 2}x}"

    def name(self) -> str:
        """See Ids."""
        return self.token(12)

    def fraction(self) -> float:
        """Always the middle."""
        return 0.5
