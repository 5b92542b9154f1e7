"""Key-value buckets and objects of the dollhouse's server as one process has them."""

from typing import TYPE_CHECKING

from msgspec import Struct

from dollhouse.connection import HOP_S
from gangline_kit.errors import StreamFullError, TemporaryError

if TYPE_CHECKING:
    from dollhouse.bus import MemoryBus

ANSWER_S = 2.0
"""How long somebody waits for the answer of a key-value bucket."""


class MemoryKv(Struct):
    """See gangline_kit.bus.Kv."""

    bus: "MemoryBus"
    bucket: str

    async def create(self, key: str, value: bytes) -> int:
        """Give a key its first value."""
        await self._before()
        revision = self.bus.server.bucket(self.bucket).create(key, value)
        await self.bus.connection.check_answer(ANSWER_S)
        return revision

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """Change a key of this revision."""
        await self._before()
        found = self.bus.server.bucket(self.bucket).update(key, value, revision)
        await self.bus.connection.check_answer(ANSWER_S)
        return found

    async def put(self, key: str, value: bytes) -> int:
        """Set a key."""
        await self._before()
        return self.bus.server.bucket(self.bucket).put(key, value)

    async def get(self, key: str) -> tuple[bytes, int] | None:
        """Value and revision."""
        await self.bus.hop()
        # Nobody can tell a bucket that nobody made from one without the key.
        known = self.bus.server.buckets.get(self.bucket)
        entry = None if known is None else known.get(key)
        return None if entry is None else (entry.value, entry.revision)

    async def delete(self, key: str, revision: int | None = None) -> None:
        """Take a key away."""
        await self._before()
        self.bus.server.bucket(self.bucket).delete(key, revision)

    async def keys(self) -> list[str]:
        """All keys that have a value."""
        await self.bus.hop()
        return self.bus.server.bucket(self.bucket).held()

    async def names(self) -> list[str]:
        """All keys of which anything is kept."""
        await self.bus.hop()
        return self.bus.server.bucket(self.bucket).names()

    async def _before(self) -> None:
        """On the way to a store that may not take anything now."""
        await self.bus.connection.way(HOP_S)
        self.bus.connection.check_stores()


class MemoryObjects(Struct):
    """See gangline_kit.bus.Objects."""

    bus: "MemoryBus"
    name: str

    async def put(self, name: str, data: bytes) -> None:
        """Keep an object."""
        await self.bus.hop()
        if not name or self.name not in self.bus.server.stores:
            raise TemporaryError(f"nobody keeps {name!r} of {self.name}", retry_after_s=0.5)
        if self.name in self.bus.server.full_stores:
            self.bus.note("store full")
            raise StreamFullError(f"OBJ_{self.name} is full")
        self.bus.server.stores[self.name][name] = data

    async def get(self, name: str) -> bytes | None:
        """The object."""
        await self.bus.hop()
        return self.bus.server.stores.get(self.name, {}).get(name)

    async def list(self) -> list[str]:
        """Names, sorted."""
        await self.bus.hop()
        if self.name not in self.bus.server.stores:
            raise TemporaryError(f"store {self.name} does not exist")
        return sorted(self.bus.server.stores[self.name])

    async def delete(self, name: str) -> None:
        """Forget an object."""
        await self.bus.hop()
        self.bus.server.stores.get(self.name, {}).pop(name, None)
