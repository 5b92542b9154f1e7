"""A test world whose log has the bytes of a real one, and can be written as an archive."""

from pathlib import Path

from tests.make import World

from gangline_core import facts as f
from gangline_core.fold import Message, apply, chain
from gangline_core.step import Step
from gangline_wire.archive import encode_line, segment_name
from gangline_wire.codec import encode
from gangline_wire.envelope import Batch
from gangline_wire.stored import message


class LoggedWorld(World):
    """As `World`; every message is a batch of the log, decided on the state just before unless told otherwise."""

    def tell(self, lane: str, *facts: f.Fact, at: int | None = None, seq_seen: int | None = None) -> Step:
        """Fold one message of these facts."""
        self.at = self.at if at is None else at
        seen = self.state.kept.seq if seq_seen is None else seq_seen
        batch = Batch(lane=lane, epoch=1, seq_seen=seen, at=self.at, facts=facts)
        told = message(self.state.kept.seq + 1, encode(batch))
        self.log.append(told)
        return apply(self.state, told, strict=True)

    def write(self, folder: Path, *, segment_messages: int = 10) -> Path:
        """Write the log as an archive of segments of so many messages."""
        return write_archive(folder, self.log, segment_messages=segment_messages)


def write_archive(folder: Path, log: list[Message], *, segment_messages: int = 10) -> Path:
    """Write these messages as an archive."""
    folder.mkdir(parents=True, exist_ok=True)
    head = ""
    for start in range(0, len(log), segment_messages):
        with (folder / segment_name(log[start].seq)).open("wb") as file:
            for told in log[start : start + segment_messages]:
                head = chain(head, told.raw, told.note)
                file.write(encode_line(told, head=head))
    return folder
