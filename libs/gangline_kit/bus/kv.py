"""Key-value buckets: values with revisions, created or changed only by whoever knows the last one."""

from gangline_kit.bus import jetstream
from gangline_kit.bus.connection import Connection
from gangline_kit.bus.jetstream import StoredMessage
from gangline_kit.errors import KeyExistsError, LaneConflictError, StaleRevisionError

TIMEOUT_S = 2.0
OPERATION = "KV-Operation"
DELETED = b"KV-Operation:"
"""A stored message with this header is the marker of a key that was taken away."""


class Kv:
    """One bucket, in the layout all NATS clients share."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        """Use `Bus.kv`."""
        self._connection = connection
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."

    async def create(self, key: str, value: bytes) -> int:
        """Give a key its first value; gives the revision.

        Raises:
            KeyExistsError: it has one.
            TemporaryError: the bus is away.
        """
        try:
            return await self._write(key, value, expected=0)
        except LaneConflictError as error:
            known = await self._last(key)
            if known is None or not _is_deleted(known):
                raise KeyExistsError(key) from error
        try:
            return await self._write(key, value, expected=known.seq)
        except LaneConflictError as error:
            raise KeyExistsError(key) from error

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """Change a key that still has this revision; gives the new one.

        Raises:
            StaleRevisionError: it has another, or is gone.
            TemporaryError: the bus is away.
        """
        try:
            return await self._write(key, value, expected=revision)
        except LaneConflictError as error:
            raise StaleRevisionError(key) from error

    async def put(self, key: str, value: bytes) -> int:
        """Set a key whatever it was; gives the revision."""
        return await self._write(key, value)

    async def get(self, key: str) -> tuple[bytes, int] | None:
        """Value and revision, or None."""
        known = await self._last(key)
        return None if known is None or _is_deleted(known) else (known.data, known.seq)

    async def delete(self, key: str, revision: int | None = None) -> None:
        """Take a key away, so that nothing of it is left; with `revision` only if it still has that one.

        Then a marker stays in its place, which only the bucket's own time limit takes away.

        Raises:
            StaleRevisionError: it has another.
        """
        if revision is None:
            purged = {"filter": self._prefix + key}
            await jetstream.call(self._connection, f"STREAM.PURGE.{self._stream}", purged)
            return
        try:
            await self._write(key, b"", expected=revision, headers={OPERATION: "DEL"})
        except LaneConflictError as error:
            raise StaleRevisionError(key) from error

    async def keys(self) -> list[str]:
        """All keys that have a value, sorted."""
        return [name for name in await self.names() if await self.get(name) is not None]

    async def names(self) -> list[str]:
        """All keys of which anything is kept, were it only that they were taken away, sorted: no value is read."""
        subjects = await jetstream.subjects(self._connection, self._stream, f"{self._prefix}>")
        return sorted(subject.removeprefix(self._prefix) for subject in subjects)

    async def _write(
        self, key: str, value: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None
    ) -> int:
        headers = dict(headers or {})
        if expected is not None:
            headers[jetstream.EXPECTED_SEQUENCE] = str(expected)
        subject = self._prefix + key
        return await jetstream.append(self._connection, subject, value, headers=headers or None, timeout_s=TIMEOUT_S)

    async def _last(self, key: str) -> StoredMessage | None:
        return await jetstream.last_message(self._connection, self._stream, self._prefix + key)


def _is_deleted(message: StoredMessage) -> bool:
    return DELETED in message.hdrs
