"""Nodes of an earlier `gangline up --simulate` take no work while nobody carries them, and do again afterwards.

The log knows them, and it takes half a minute until their silence is noticed: the first jobs of a plain `gangline up`
were placed there and lost.
"""

import asyncio

from gangline_client.client import Client
from gangline_embedded.rooms import SIMULATED

WHY = "simulated by an earlier `gangline up --simulate`; nobody carries it now"
AT_ONCE = 32
"""Nodes that are asked for at the same time."""


async def set_aside(client: Client, *, simulates: bool) -> int:
    """Drain what an earlier start simulated, or take it back when this one `simulates`; how many nodes that are."""
    nodes = [node for node in await client.nodes() if node.agent == SIMULATED]
    aside = [node.id for node in nodes if node.why == WHY]
    others = [node.id for node in nodes if not node.why and node.state in ("ready", "lost")]
    room = asyncio.Semaphore(AT_ONCE)

    async def change(node: str) -> None:
        async with room:
            await (client.resume(node) if simulates else client.drain(node, why=WHY))

    async with asyncio.TaskGroup() as group:
        for node in aside if simulates else others:
            group.create_task(change(node))
    return len(aside) if simulates else len(aside) + len(others)
