"""How often an agent shows that its nodes live: what counts them lost goes by that."""

import asyncio
from itertools import pairwise
from pathlib import Path

from tests.cases.house import house

from dollhouse.loop import live
from gangline_kit.service import Site
from gangline_wire import subjects
from gangline_wire.codec import decode
from gangline_wire.samples import Samples


def test_nodes_show_that_they_live_once_in_every_second(tmp_path: Path) -> None:
    live(beat_story(tmp_path))


async def beat_story(tmp_path: Path) -> None:
    heard: list[int] = []

    async def listen(site: Site, config: None) -> None:
        async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
            heard.extend(node.at for node in decode(data, Samples).nodes)

        await site.bus.subscribe(f"{subjects.SAMPLES}.>", hear)
        await asyncio.Event().wait()

    async with house(tmp_path, {"one": {"n1": 2}}) as world:
        world.start("ear", listen, None)
        # Whoever takes its nodes up shows life at once, beside the beat.
        await asyncio.sleep(10)
        heard.clear()
        await asyncio.sleep(60)
    between_ms = [later - sooner for sooner, later in pairwise(heard)]
    assert len(heard) in (59, 60, 61)
    assert set(between_ms) == {1000}
