"""One leader per pool: pools may appear at run time, so who leads one of each kind watches for new ones."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gangline_core.fold import Message
from gangline_core.step import Step
from gangline_kit.lane import Lane
from gangline_kit.leader import POLL_S, Lease, lead, reign, seize
from gangline_kit.service import Site

PoolWork = Callable[[Lane, str], Awaitable[None]]
Wanted = Callable[[], Mapping[str, Sequence[str]]]


async def lead_pools(site: Site, kind: str, work: PoolWork) -> None:
    """Lead (or stand by for) lane `<kind>.<pool>` of every pool until cancelled."""
    grown = asyncio.Event()

    def note(message: Message, step: Step) -> None:
        if step.settings:
            grown.set()

    led: set[str] = set()
    with site.follower.listening(note):
        async with asyncio.TaskGroup() as group:
            while True:
                for pool in sorted(set(site.follower.state.kept.pools) - led):
                    led.add(pool)
                    group.create_task(_lead_one(site, kind, pool=pool, work=work), name=f"{kind}.{pool}")
                await grown.wait()
                grown.clear()


async def _lead_one(site: Site, kind: str, *, pool: str, work: PoolWork) -> None:
    async def on_lane(lane: Lane) -> None:
        await work(lane, pool)

    await lead(site, f"{kind}.{pool}", on_lane)


async def lead_some(site: Site, wanted: Wanted, most: int, work: PoolWork) -> None:
    """Lead up to `most` of each pool's lanes (`wanted`: pool -> lanes) that nobody leads, until cancelled.

    What is left is for other processes: several of them share the lanes instead of one leading them all. `work` gets
    the name of its lane and is cancelled when the lane is no longer wanted.
    """
    led: dict[str, asyncio.Task[None]] = {}
    changed = asyncio.Event()

    def note(message: Message, step: Step) -> None:
        if step.settings:
            changed.set()

    with site.follower.listening(note):
        async with asyncio.TaskGroup() as group:
            while True:
                lanes = {pool: sorted(names) for pool, names in sorted(wanted().items()) if names}
                for name in sorted(set(led) - {name for names in lanes.values() for name in names}):
                    led.pop(name).cancel()
                led = {name: task for name, task in led.items() if not task.done()}
                for names in lanes.values():
                    for name in names:
                        if name in led or sum(other in led for other in names) >= most:
                            continue
                        lease = await seize(site, name)
                        if lease is not None:
                            led[name] = group.create_task(_reign_one(site, name, lease=lease, work=work), name=name)
                if lanes:
                    await site.clock.sleep(POLL_S * (1 + site.ids.fraction()))
                else:
                    await changed.wait()
                changed.clear()


async def _reign_one(site: Site, name: str, *, lease: Lease, work: PoolWork) -> None:
    async def on_lane(lane: Lane) -> None:
        await work(lane, name)

    await reign(site, name, lease, on_lane)
