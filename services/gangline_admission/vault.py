"""What jobs are given in secret: kept before their job is in the log, gone when it has ended or never came there."""

import asyncio
import logging
from collections.abc import Iterable

from gangline_admission.verdict import Verdict
from gangline_core.door.sealed import vault_name, vault_names
from gangline_core.facts import JobAdmitted
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import ENDS
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_wire.codec import encode
from gangline_wire.streams import SECRETS

log = logging.getLogger(__name__)

SWEEP_S = 30.0
"""How often it is looked for what nobody needs: a leader that died, or did not know it led no more, may leave some."""


class Vault:
    """The sealed values of the jobs of one door, under the names of `gangline_core.door.sealed`."""

    def __init__(self, site: Site) -> None:
        """Nothing is kept by this process yet."""
        self._site = site
        self._bucket = site.bus.kv(SECRETS.name)
        self._epoch = 0
        self._known: dict[JobId, int] = {}
        """Epochs of the doors that let in what has not ended; the fold forgets them at the end."""
        self._ended: asyncio.Queue[JobId] = asyncio.Queue()
        self._entering: dict[str, None] = {}
        """Names under which something is kept of which it is not known yet whether its job is in the log."""
        self._turn = asyncio.Lock()
        """Nothing is swept away while something is put in."""

    def begin(self, epoch: int) -> None:
        """This process leads now: what it had under way when it led before did not come to the log."""
        self._epoch = epoch
        self._entering.clear()
        self._known = dict(self._site.follower.state.kept.sealed)

    async def keep(self, verdict: Verdict) -> None:
        """Keep what the jobs of a verdict were given.

        Raises:
            StreamFullError: there is no room; TemporaryError: the bus is away. Perhaps some of it is kept.
        """
        async with self._turn:
            for job, values in verdict.secrets.items():
                name = vault_name(job, self._epoch)
                self._entering[name] = None
                await self._bucket.put(name, encode(values))

    def entered(self, verdicts: Iterable[Verdict]) -> None:
        """Their jobs are in the log and in our fold."""
        for name in self._names(verdicts):
            self._entering.pop(name, None)

    async def take_back(self, verdicts: Iterable[Verdict]) -> None:
        """Their jobs are not in the log and never will be; their numbers are given to others."""
        async with self._turn:
            for name in self._names(verdicts):
                if name in self._entering:
                    del self._entering[name]
                    await self._delete(name)

    def _names(self, verdicts: Iterable[Verdict]) -> list[str]:
        return [vault_name(job, self._epoch) for verdict in verdicts for job in verdict.secrets]

    def note(self, message: Message, step: Step) -> None:
        """Values go when their job has ended."""
        sealed = self._site.follower.state.kept.sealed
        self._known |= {
            fact.job: sealed[fact.job] for fact in message.facts if isinstance(fact, JobAdmitted) and fact.job in sealed
        }
        for job in (*(moved.job for moved in step.moves if moved.after in ENDS), *step.arrays):
            if job in self._known:
                self._ended.put_nowait(job)

    async def shred(self) -> None:
        """Take away what nobody needs any more, for as long as this process leads."""
        while True:
            await self._sweep()
            try:
                async with asyncio.timeout(SWEEP_S):
                    while True:
                        job = await self._ended.get()
                        epoch = self._known.pop(job, None)
                        if epoch is not None:
                            await self._delete(vault_name(job, epoch))
            except TimeoutError:
                continue

    async def _sweep(self) -> None:
        async with self._turn:
            kept = self._site.follower.state.kept
            try:
                found = await self._bucket.names()
            except TemporaryError as error:
                log.warning("cannot look for values that nobody needs", extra={"error": str(error)})
                return
            needed = {name for job in kept.sealed for name in vault_names(kept, job)} | set(self._entering)
            for name in found:
                if name not in needed and not self._is_of_later_door(name):
                    await self._delete(name)

    def _is_of_later_door(self, name: str) -> bool:
        """True for what whoever leads after us puts away: its job may come to the log, or to our fold, only then."""
        _, _, epoch = name.partition(".")
        return epoch.isdecimal() and int(epoch) > self._epoch

    async def _delete(self, name: str) -> None:
        """What cannot be taken away now is found by the next sweep."""
        try:
            await self._bucket.delete(name)
        except TemporaryError as error:
            log.warning("values that nobody needs are still kept", extra={"error": str(error)})
