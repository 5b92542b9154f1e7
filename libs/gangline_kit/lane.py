"""A writer's pen: appends batches of facts to one lane of the log, and only while nobody else does."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from gangline_core.facts import Fact, LeadershipTaken
from gangline_core.state import State
from gangline_kit.bus import Bus
from gangline_kit.clock import Clock
from gangline_kit.errors import OutcomeUnknownError, PermanentError, StreamFullError, TemporaryError
from gangline_kit.follower import Follower
from gangline_kit.moment import Moment, present
from gangline_wire import codec, lanes, subjects
from gangline_wire.envelope import Batch
from gangline_wire.streams import LOG

RETRY_S = 0.1
RETRY_S_MAX = 0.5
ANSWER_S = 1.0
"""An append should be answered within this time; each try gives the next one twice as long, up to ANSWER_S_MAX. A
stream's leader that has died answers nobody, and whoever repeats finds what was stored."""
ANSWER_S_MAX = 5.0
REACH_S_MAX = 30.0
"""The fold sees what was appended within this time, or something is badly wrong."""


class Lane:
    """One lane while we lead it.

    One append is in flight at a time. A lost answer is settled by looking at the lane (see `Bus.append`), so `append`
    repeats until it knows, or until its task is cancelled because the lease is gone.
    """

    def __init__(self, bus: Bus, follower: Follower, clock: Clock, *, name: str, epoch: int) -> None:
        """Use `leader.lead`; `take` comes first."""
        self.name = name
        self.epoch = epoch
        self._bus = bus
        self._follower = follower
        self._clock = clock
        self._subject = subjects.log(name)
        self._last_seq = 0
        self._turn = asyncio.Lock()

    @property
    def state(self) -> State:
        """The fold the decisions are made on."""
        return self._follower.state

    async def take(self, holder: str) -> None:
        """Begin to write: LeadershipTaken after whatever the lane's last message is, so that older leaders fail.

        Raises:
            LaneConflictError: somebody else took it at the same moment.
        """
        last = await self._bus.last_message(LOG.name, self._subject)
        self._last_seq = last[1] if last is not None else 0
        await self._follower.reached(self._last_seq, timeout_s=REACH_S_MAX)
        self.epoch = max(self.epoch, self.state.kept.epochs.get(self.name, 0) + 1)
        await self.append((LeadershipTaken(holder=holder),))

    async def is_ours(self) -> bool:
        """Whether the lane's last message is of this reign, as far as the log's leader knows; no two have one epoch.

        Raises:
            TemporaryError: nobody answers for the log.
        """
        last = await self._bus.last_message(LOG.name, self._subject)
        with suppress(codec.CodecError):
            return last is not None and codec.decode_batch(last[0]).epoch == self.epoch
        return False

    async def append(
        self,
        facts: tuple[Fact, ...],
        when: Moment | None = None,
        trace: str | None = None,
        stored: Callable[[int], None] | None = None,
    ) -> int:
        """Write facts as one message and wait until the fold has it; gives its sequence.

        `when` is the moment at which the facts were decided; now, if not given, and then nothing may have been waited
        for since. `trace` is a traceparent for the message's header. `stored` is called with the sequence as soon as
        the message is durable, before the fold has it.

        Raises:
            LaneConflictError: another leader wrote; step down.
            StreamFullError: the log is full and nothing was written.
            PermanentError: facts of another pen, or the log is lost.
        """
        stray = lanes.stray_facts(self.name, facts)
        if stray:
            raise PermanentError(f"lane {self.name} must not carry {', '.join(stray)}")
        moment = present(self.state, self._clock) if when is None else when
        batch = Batch(lane=self.name, epoch=self.epoch, seq_seen=moment.seq, at=moment.at, facts=facts)
        data = codec.encode(batch)
        async with self._turn:
            # Expected is our own last message, not the fold's: the fold may have seen a newer leader's already.
            seq = self._last_seq = await self._store(data, self._last_seq, trace)
        if stored is not None:
            stored(seq)
        await self._follower.reached(seq, timeout_s=REACH_S_MAX)
        return seq

    async def _store(self, data: bytes, expected: int, trace: str | None) -> int:
        headers = {"traceparent": trace} if trace else None
        wait_s, answer_s = RETRY_S, ANSWER_S
        while True:
            try:
                return await self._bus.append(self._subject, data, expected, headers=headers, timeout_s=answer_s)
            except StreamFullError:
                raise
            except OutcomeUnknownError:
                answer_s = min(answer_s * 2, ANSWER_S_MAX)
            except TemporaryError:
                pass
            await self._clock.sleep(wait_s)
            wait_s = min(wait_s * 2, RETRY_S_MAX)
