"""What the fake server answers while servers of a cluster have not agreed on a message, which is rare."""

import pytest

from dollhouse.bus import MemoryBus
from dollhouse.clock import LoopClock
from dollhouse.connection import Rates
from dollhouse.loop import live
from dollhouse.server import MemoryServer
from gangline_kit.errors import LaneConflictError, OutcomeUnknownError
from gangline_wire.streams import LOG

LANE = "gangline.log.queue.default"


def test_until_servers_agree_nothing_else_is_taken_on_the_subject_and_then_it_is_stored_or_not() -> None:
    async def story() -> tuple[int, int]:
        clock = LoopClock()
        server = MemoryServer((LOG,), (), clock.monotonic_s)
        unlucky, other = MemoryBus(server, clock, rates=Rates(undecided=1.0)), MemoryBus(server, clock)
        kept = dropped = 0
        for turn in range(20):
            last = server.stream(LOG.name).last_seq(LANE)
            data = f"mine {turn}".encode()
            with pytest.raises(OutcomeUnknownError):
                await unlucky.append(LANE, data, expected_seq=last, timeout_s=0.01)
            with pytest.raises(OutcomeUnknownError, match="on its way"):
                await other.append(LANE, b"other", expected_seq=last)
            assert await other.append("gangline.log.admission", data) > 0
            await clock.sleep(20)
            found = server.stream(LOG.name).at(server.stream(LOG.name).last_seq(LANE))
            if found is not None and found.data == data:
                kept += 1
                assert await other.append(LANE, data, expected_seq=last) == found.seq
                with pytest.raises(LaneConflictError):
                    await other.append(LANE, b"other", expected_seq=last)
            else:
                dropped += 1
                assert await other.append(LANE, data, expected_seq=last) > last
        return kept, dropped

    kept, dropped = live(story())
    assert kept
    assert dropped
