"""Leadership of a lane: a lease in the key-value store that somebody else may take as soon as we stop renewing it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto

from gangline_kit.bus import Kv
from gangline_kit.errors import (
    KeyExistsError,
    LaneConflictError,
    OutcomeUnknownError,
    StaleRevisionError,
    TemporaryError,
    flat,
)
from gangline_kit.lane import Lane
from gangline_kit.service import Site
from gangline_kit.tasks import alone, heed_cancellation
from gangline_wire.streams import LEASE_RENEW_S, LEASE_TTL_S, LEASES, LOG

log = logging.getLogger(__name__)

POLL_S = 0.3
"""A follower looks this often whether the lease is free."""
MARGIN_S = 0.5
"""We stop this long before the lease can expire at the server."""
RENEW_RETRY_S = 0.2
RELEASE_S_MAX = 1.0
CATCH_UP_S_MAX = 60.0
WITNESS_S_MAX = 0.5
"""The log should say within this time who writes the lane."""

UNSURE_S_MAX = 15.0
"""Brokers that have lost the one that led them elect another within this time, and until then nobody can write."""

Witness = Callable[[], Awaitable[bool]]
Work = Callable[[Lane], Awaitable[None]]


class Known(Enum):
    """What the log says of whether we are a lane's writer."""

    YES = auto()
    NOT = auto()
    PERHAPS = auto()
    """It says nothing."""


class LeaseLostError(Exception):
    """We could not renew in time, or somebody else holds the lease."""


async def lead(site: Site, lane_name: str, work: Work, *, acts_outside: bool = False) -> None:
    """Run `work` with the lane's pen whenever we lead it; returns only when `work` returns, or by cancellation.

    The lease says who should write; the expected sequence of each append decides who can. `work` is cancelled when the
    lease is lost and begun anew, with a fresh Lane, when it is won again. A clean end gives the lease back at once.

    While nobody answers for the leases, whoever leads goes on unless the log knows a later writer of the lane. It does
    so as well while brokers elect who answers for the log, as nobody can write before that.
    Work that also acts where no append stands in the way of a leader from before (`acts_outside`) ends with the lease.

    Raises:
        PermanentError: from the bus or the fold; whatever else `work` raises (in an exception group).
    """
    lease = Lease(site, lane_name, holds_on=not acts_outside)
    while True:
        await lease.acquire()
        if await reign(site, lane_name, lease, work):
            return
        await site.clock.sleep(POLL_S * (1 + site.ids.fraction()))


async def seize(site: Site, lane_name: str) -> "Lease | None":
    """The lane's lease if nobody holds it now; `reign` gives it back."""
    lease = Lease(site, lane_name)
    return lease if await lease.try_acquire() else None


async def reign(site: Site, lane_name: str, lease: "Lease", work: Work) -> bool:
    """Work under a lease until it is lost (False) or `work` returns; either way it is given back."""
    is_done = False
    try:
        await alone(_reign(site, lane_name, lease, work), name=f"reign {lane_name}")
        is_done = True
    except* (LeaseLostError, LaneConflictError, TemporaryError) as group:
        for error in flat(group):
            log.warning("%s steps down from lane %s: %s", site.instance, lane_name, error)
    finally:
        site.metrics.set_leading(lane_name, leads=False)
        await lease.release()
    heed_cancellation()
    return is_done


async def _reign(site: Site, lane_name: str, lease: "Lease", work: Work) -> None:
    """Catch up, take the lane, work until the lease is lost; whatever goes wrong comes in a group."""
    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(lease.renew_until_lost(), name=f"lease {lane_name}")
        await site.follower.reached(await _log_end(site), timeout_s=CATCH_UP_S_MAX)
        lane = Lane(site.bus, site.follower, site.clock, name=lane_name, epoch=lease.epoch)
        await lane.take(site.instance)
        lease.witness = lane.is_ours
        site.metrics.set_leading(lane_name, leads=True)
        log.info("%s leads lane %s in epoch %d", site.instance, lane_name, lane.epoch)
        await work(lane)
        renewing.cancel()


async def _log_end(site: Site) -> int:
    """Sequence of the log's last message; a log that has no leader yet is waited for, as long as the lease is ours."""
    while True:
        try:
            return await site.bus.last_seq(LOG.name)
        except TemporaryError as error:
            log.debug("the log's end is not known yet: %s", error)
            await site.clock.sleep(RENEW_RETRY_S)


class Lease:
    """One key of the lease bucket, named like the lane."""

    def __init__(self, site: Site, lane: str, *, holds_on: bool = True) -> None:
        """Nothing is held yet."""
        self.epoch = 0
        self.witness: Witness | None = None
        """Whether the log knows us as the lane's writer, once we are."""
        self._holds_on = holds_on
        self._is_held_on = False
        """We went on although nobody answered for the lease; it may have run out meanwhile."""
        self._site = site
        self._kv: Kv = site.bus.kv(LEASES.name)
        self._key = lane
        self._value = site.instance.encode()
        self._revision = 0
        self._held_until_s = 0.0
        self._sure_s = 0.0
        """When we last knew that nobody else writes."""
        self._is_unsure = False
        """We asked for the lease and were not answered: it may be ours."""

    async def acquire(self) -> None:
        """Wait until nobody holds the lease and take it; its revision is our epoch."""
        while not await self.try_acquire():
            await self._site.clock.sleep(POLL_S)

    async def try_acquire(self) -> bool:
        """Take the lease if nobody holds it; without a bus this waits for one."""
        asked_s = self._site.clock.monotonic_s()
        try:
            self._revision = self.epoch = await self._kv.create(self._key, self._value)
        except KeyExistsError:
            return self._is_unsure and await self._is_ours()
        except TemporaryError as error:
            self._is_unsure = self._is_unsure or isinstance(error, OutcomeUnknownError)
            await self._site.bus.connection.wait_connected()
            return False
        self._is_unsure = False
        self._is_ours_from(asked_s)
        return True

    async def _is_ours(self) -> bool:
        """Whether it is ourselves who hold the lease, by a request whose answer was lost; then it is renewed."""
        try:
            known = await self._kv.get(self._key)
        except TemporaryError:
            return False
        self._is_unsure = False
        if known is None or known[0] != self._value:
            return False
        self._revision = known[1]
        if not await self.renew():
            self._revision = 0
            return False
        self.epoch = self._revision
        return True

    async def renew_until_lost(self) -> None:
        """Renew for ever; raises LeaseLostError when that fails for too long."""
        clock = self._site.clock
        while True:
            await clock.sleep(LEASE_RENEW_S)
            while not await self._renew_in_time():
                if clock.monotonic_s() + RENEW_RETRY_S >= self._held_until_s and not await self._hold_on():
                    self._revision = 0
                    raise LeaseLostError("the lease could not be renewed")
                await clock.sleep(RENEW_RETRY_S)

    async def _renew_in_time(self) -> bool:
        """Renew the lease; who cannot go on without it hears before it runs out that nobody answers."""
        left_s = None if self._holds_on else self._held_until_s - self._site.clock.monotonic_s()
        try:
            async with asyncio.timeout(left_s):
                return await self.renew()
        except TimeoutError:
            return False

    async def _hold_on(self) -> bool:
        """Whether we go on without the lease: nobody answers for it, and as far as the log says nobody else writes."""
        asked_s = self._site.clock.monotonic_s()
        if not self._held_until_s:
            return False
        knows = await self._asked_the_log()
        if knows is Known.NOT or (knows is Known.PERHAPS and asked_s >= self._sure_s + UNSURE_S_MAX):
            return False
        self._is_held_on = True
        self._held_until_s = asked_s + LEASE_TTL_S - MARGIN_S
        if knows is Known.YES:
            self._sure_s = asked_s
        log.warning("%s goes on leading lane %s: nobody answers for its lease", self._site.instance, self._key)
        return True

    async def _asked_the_log(self) -> "Known":
        """Whether the log knows us as the lane's writer; whoever has lost the bus must not ask."""
        if self.witness is None or not self._holds_on or not self._site.bus.connection.is_connected:
            return Known.NOT
        try:
            async with asyncio.timeout(WITNESS_S_MAX):
                return Known.YES if await self.witness() else Known.NOT
        except (TemporaryError, TimeoutError):
            return Known.PERHAPS

    async def renew(self) -> bool:
        """Renew the lease once; False when nobody answers, or it is another's."""
        asked_s = self._site.clock.monotonic_s()
        try:
            self._revision = await self._kv.update(self._key, self._value, self._revision)
        except StaleRevisionError:
            # Perhaps our own renewal whose answer was lost: then the value is ours and the revision the new one.
            return await self._recognise()
        except TemporaryError:
            return False
        self._is_ours_from(asked_s)
        return True

    async def _recognise(self) -> bool:
        try:
            known = await self._kv.get(self._key)
            if known is None and self._is_held_on and await self._asked_the_log() is Known.YES:
                # Whoever had it since then wrote nothing, or would be seen.
                known = self._value, await self._kv.create(self._key, self._value)
        except TemporaryError:
            return False
        except KeyExistsError:
            known = None
        if known is None or known[0] != self._value:
            self._held_until_s = 0.0
            return False
        # It was only read: who renewed it and was not heard may have done so long ago.
        asked_s = self._site.clock.monotonic_s()
        try:
            self._revision = await self._kv.update(self._key, self._value, known[1])
        except (StaleRevisionError, TemporaryError):
            self._revision = known[1]
            return False
        self._is_ours_from(asked_s)
        return True

    def _is_ours_from(self, asked_s: float) -> None:
        self._is_held_on = False
        self._sure_s = asked_s
        self._held_until_s = asked_s + LEASE_TTL_S - MARGIN_S

    async def release(self) -> None:
        """Give the lease back, if it is still ours, so that the next leader need not wait."""
        revision, self._revision = self._revision, 0
        self.witness = None
        if not revision:
            return
        with suppress(StaleRevisionError, TemporaryError, TimeoutError):
            async with asyncio.timeout(RELEASE_S_MAX):
                await self._delete(revision)

    async def _delete(self, revision: int) -> None:
        try:
            await self._kv.delete(self._key, revision)
        except StaleRevisionError:
            # A renewal that we did not wait for any more, because we were told to end, may have moved it.
            known = await self._kv.get(self._key)
            if known is not None and known[0] == self._value:
                await self._kv.delete(self._key, known[1])
