"""One leader per pool: pools may appear at run time, so who leads one of each kind watches for new ones."""

import asyncio
from collections.abc import Awaitable, Callable

from gangline_core.fold import Message
from gangline_core.step import Step
from gangline_kit.lane import Lane
from gangline_kit.leader import lead
from gangline_kit.service import Site

PoolWork = Callable[[Lane, str], Awaitable[None]]


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
