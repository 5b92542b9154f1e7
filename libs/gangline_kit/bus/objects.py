"""Object stores: named blobs larger than a message, in the layout all NATS clients share."""

import asyncio
from base64 import urlsafe_b64encode
from hashlib import sha256

import msgspec
from msgspec import Struct

from gangline_kit.bus import jetstream
from gangline_kit.bus.connection import Connection
from gangline_kit.bus.tail import Tail
from gangline_kit.errors import PermanentError

CHUNK_BYTES = 1 << 20
CHUNKS_IN_FLIGHT_MAX = 8
APPEND_TIMEOUT_S = 10.0
ROLLUP = {"Nats-Rollup": "sub"}
"""A new description of an object replaces the old one."""


class _Options(Struct, frozen=True):
    max_chunk_size: int = CHUNK_BYTES


class ObjectInfo(Struct, frozen=True, omit_defaults=True):
    """An object's description, as every NATS client writes it."""

    name: str
    bucket: str
    nuid: str
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False
    options: _Options | None = None


class Objects:
    """One object store."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        """Use `Bus.objects`."""
        self._connection = connection
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"

    async def put(self, name: str, data: bytes) -> None:
        """Store a blob, replacing one of the same name; it is there as a whole or not at all."""
        before = await self.describe(name)
        nuid = self._connection.inbox().rpartition(".")[2]
        chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
        subject = self._chunk_subject(nuid)
        for at in range(0, len(chunks), CHUNKS_IN_FLIGHT_MAX):
            sent = (self._append(subject, chunk) for chunk in chunks[at : at + CHUNKS_IN_FLIGHT_MAX])
            # Outcomes are collected, because a gather that ends with an error would swallow a cancellation.
            for outcome in await asyncio.gather(*sent, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
        digest = _digest(data)
        info = ObjectInfo(name, self._bucket, nuid, len(data), len(chunks), digest, options=_Options())
        await self._append(self._meta_subject(name), msgspec.json.encode(info), ROLLUP)
        if before is not None:
            await self._purge(before.nuid)

    async def get(self, name: str) -> bytes | None:
        """A blob, or None.

        Raises:
            PermanentError: what is stored is not what was put.
        """
        info = await self.describe(name)
        if info is None:
            return None
        parts: list[bytes] = []
        if info.chunks:
            tail = Tail(self._connection, self._stream, 1, subject=self._chunk_subject(info.nuid), follow=False)
            async for batch in tail.batches():
                parts.extend(message.data for message in batch)
        data = b"".join(parts)
        if len(data) != info.size or _digest(data) != info.digest:
            raise PermanentError(f"object {name} of {self._bucket} is damaged")
        return data

    async def list(self) -> list[str]:
        """Names of all blobs, sorted."""
        names = []
        for subject in await jetstream.subjects(self._connection, self._stream, f"$O.{self._bucket}.M.>"):
            info = await self._info_at(subject)
            if info is not None:
                names.append(info.name)
        return sorted(names)

    async def delete(self, name: str) -> None:
        """Take a blob away; harmless when it is not there."""
        info = await self.describe(name)
        if info is not None:
            gone = ObjectInfo(name, self._bucket, info.nuid, deleted=True)
            await self._append(self._meta_subject(name), msgspec.json.encode(gone), ROLLUP)
            await self._purge(info.nuid)

    async def describe(self, name: str) -> ObjectInfo | None:
        """A blob's description, or None."""
        return await self._info_at(self._meta_subject(name))

    async def _info_at(self, subject: str) -> ObjectInfo | None:
        message = await jetstream.last_message(self._connection, self._stream, subject)
        if message is None:
            return None
        info = msgspec.json.decode(message.data, type=ObjectInfo)
        return None if info.deleted else info

    async def _append(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        await jetstream.append(self._connection, subject, data, headers=headers, timeout_s=APPEND_TIMEOUT_S)

    async def _purge(self, nuid: str) -> None:
        await jetstream.call(self._connection, f"STREAM.PURGE.{self._stream}", {"filter": self._chunk_subject(nuid)})

    def _chunk_subject(self, nuid: str) -> str:
        return f"$O.{self._bucket}.C.{nuid}"

    def _meta_subject(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{urlsafe_b64encode(name.encode()).decode()}"


def _digest(data: bytes) -> str:
    return f"SHA-256={urlsafe_b64encode(sha256(data).digest()).decode()}"
