"""A key-value bucket of the dollhouse's server: a stream that keeps the newest message of each subject, as in NATS."""

from collections.abc import Callable

from msgspec import Struct

from dollhouse.stored import StoredStream
from gangline_kit.bus.kv import OPERATION
from gangline_kit.errors import KeyExistsError, LaneConflictError, StaleRevisionError
from gangline_wire.streams import Bucket, Stream


class Entry(Struct, frozen=True):
    """A key's value."""

    value: bytes
    revision: int


class StoredBucket:
    """One key-value bucket in memory."""

    def __init__(self, settings: Bucket, now_s: Callable[[], float], *, replicas: int = 1) -> None:
        """An empty bucket."""
        self.settings = settings
        self.stream = StoredStream(_stream_of(settings), now_s, replicas=replicas, lasts_s=settings.ttl_s)

    def change(self, settings: Bucket) -> None:
        """It has these settings from now on."""
        self.settings = settings
        self.stream.settings, self.stream.lasts_s = _stream_of(settings), settings.ttl_s

    def get(self, key: str) -> Entry | None:
        """The entry, unless it expired or was taken away."""
        self.stream.expire()
        last = self.stream.at(self.stream.last_seq(self._subject(key)))
        if last is None or OPERATION in (last.headers or {}):
            return None
        return Entry(value=last.data, revision=last.seq)

    def put(self, key: str, value: bytes) -> int:
        """Set the value and give its revision; errors as `Kv.put`."""
        return self._write(key, value, expected=None)

    def create(self, key: str, value: bytes) -> int:
        """Set a value where there is none; errors as `Kv.create`."""
        if self.get(key) is not None:
            raise KeyExistsError(key)
        return self._write(key, value, expected=self.stream.last_seq(self._subject(key)))

    def update(self, key: str, value: bytes, revision: int) -> int:
        """Change a value of this revision; errors as `Kv.update`."""
        try:
            return self._write(key, value, expected=revision)
        except LaneConflictError:
            raise StaleRevisionError(key) from None

    def delete(self, key: str, revision: int | None) -> None:
        """Take a key away; errors as `Kv.delete`."""
        if revision is None:
            self.stream.purge(self._subject(key))
            return
        try:
            self._write(key, b"", expected=revision, headers={OPERATION: "DEL"})
        except LaneConflictError:
            raise StaleRevisionError(key) from None

    def held(self) -> list[str]:
        """Keys that have a value, sorted."""
        return [key for key in self.names() if self.get(key) is not None]

    def names(self) -> list[str]:
        """Keys of which anything is kept, were it only that they were taken away, sorted."""
        prefix = self._subject("")
        return sorted(subject.removeprefix(prefix) for subject in self.stream.subjects(f"{prefix}>"))

    def _subject(self, key: str) -> str:
        return f"$KV.{self.settings.name}.{key}"

    def _write(self, key: str, value: bytes, *, expected: int | None, headers: dict[str, str] | None = None) -> int:
        self.stream.expire()
        subject = self._subject(key)
        # Unlike a lane, a key does not count equal bytes as its writer's own earlier try.
        if expected is not None and expected != self.stream.last_seq(subject):
            raise LaneConflictError(subject)
        return self.stream.append(subject, value, expected_seq=expected, msg_id=None, headers=headers)


def _stream_of(bucket: Bucket) -> Stream:
    return Stream(
        name=f"KV_{bucket.name}",
        subjects=(f"$KV.{bucket.name}.>",),
        bytes_max=bucket.bytes_max,
        messages_per_subject_max=bucket.history,
        duplicate_window_s=0,
    )
