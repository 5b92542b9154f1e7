"""The simulated log: every fact becomes a message, is folded, and may be written as an archive that replays.

Without an archive the bytes of messages are never made, nor are forecasts: nothing but the digests depends on them.
"""

from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from gangline_core.facts import Fact
from gangline_core.fold import Message, apply
from gangline_core.state import State
from gangline_core.step import Step
from gangline_wire.archive import encode_line, segment_name
from gangline_wire.codec import encode
from gangline_wire.envelope import Batch

SEGMENT_MESSAGES = 50_000
"""Messages of one segment of the archive."""
EPOCH = 1


class Journal:
    """The one log of a simulation, folded into its state as it is written."""

    def __init__(self, archive: Path | None = None) -> None:
        """An empty log; with a folder given, its archive is written there."""
        self.state = State()
        self.messages = 0
        self._archive = archive
        self._file: BinaryIO | None = None
        if archive is not None:
            refuse_if_there(archive)
            archive.mkdir(parents=True, exist_ok=True)

    @property
    def is_kept(self) -> bool:
        """True where an archive is written, which somebody may read."""
        return self._archive is not None

    def tell(self, lane: str, facts: tuple[Fact, ...], at: int, *, seen: int | None = None) -> Step:
        """Append these facts to a lane and fold them; they were decided on the state as it is or was at `seen`."""
        last = self.state.kept.seq
        seen = last if seen is None else seen
        raw = b""
        if self._archive is not None:
            raw = encode(Batch(lane=lane, epoch=EPOCH, seq_seen=seen, at=at, facts=facts))
        message = Message(seq=last + 1, lane=lane, epoch=EPOCH, at=at, facts=facts, raw=raw, seen=seen)
        step = apply(self.state, message)
        self.messages += 1
        if self._archive is not None:
            self._write(message)
        return step

    def _write(self, message: Message) -> None:
        if self._file is None or (message.seq - 1) % SEGMENT_MESSAGES == 0:
            self.close()
            assert self._archive is not None
            self._file = (self._archive / segment_name(message.seq)).open("wb")
        self._file.write(encode_line(message, head=self.state.kept.digest))

    def close(self) -> None:
        """Finish the archive."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> "Journal":
        """The log, closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def refuse_if_there(archive: Path | None) -> None:
    """Two logs in one folder would be none.

    Raises:
        FileExistsError: one is there.
    """
    if archive is not None and any(archive.glob("archive-*.jsonl")):
        raise FileExistsError(f"{archive} holds an archive already")
