"""Reasons of refusals on tiny clusters: what they count is what there is, and what they name could hold the gang."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.enumerated import Ask, Card, Machine, Shape, fits
from tests.oracles.scenes import Scene, scenes, tight_scenes

from gangline_core.cluster import Pool
from gangline_core.door.never_fits import never_fits
from gangline_core.placement.gang import gang_of
from gangline_core.placement.why_not import why_not
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.room.inventory import Inventory
from gangline_core.telling.lacking import lack_of

EXAMPLES = 25
ALL = {
    "kinds": ("cpu", "share", "memory", "mig", "models", "slices", "spread", "one"),
    "levels": ("", "", "nvlink", "socket", "node", "rack", "block"),
    "sockets": 2,
}
CLOSED = {"kinds": ("rest", "cpu", "share", "where", "one"), "levels": ("", "", "switch", "node", "rack")}
EASY = {"kinds": ("cpu", "share", "memory", "one"), "levels": ("", "node", "rack")}


def refused(scene: Scene):
    """The gang with the room in which it finds no seats; None where it does, or never could."""
    asked = scene.spec()
    empty = scene.emptied()
    if fits(scene.machines, scene.asks, scene.shape) or never_fits(Inventory(empty.nodes), Pool(name="x"), asked):
        return None
    return gang_of(asked, {role.name: role.count for role in asked.roles}, Pool(name="default"))


@pytest.mark.parametrize("wants", [ALL, CLOSED, EASY])
def test_whoever_waits_for_room_is_told_what_is_missing_and_where_it_could_come_free(wants):
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(scenes(**wants) | tight_scenes(**wants))
    def check(scene: Scene) -> None:
        if (gang := refused(scene)) is None:
            return
        room = scene.room()
        lack, reason = lack_of(room, gang), why_not(room, gang)
        assert lack.missing, sentence(reason)
        assert "?" not in f"{lack.best} {lack.missing}"
        if found := re.search(r"(\d+) more GPUs? would have to come free there", lack.missing):
            where = re.search(r"has (\d+), (?:on )?(\S+)\.", lack.best)
            assert where is not None, lack.best
            own = [m for k, m in enumerate(scene.machines) if where[2] in (f"n{k}", m.rack, m.block)]
            able = sum(not card.is_cut for machine in own for card in machine.cards)
            assert int(where[1]) + int(found[1]) <= able, lack

    check()


def told(*free: int, **ask) -> str:
    """The reason of a gang on one node with cards of 40,000 MiB, so many thousandths of each free."""
    cards = tuple(Card("A", 40_000, 0, 0, milli, 40 * milli, 0) for milli in free)
    scene = Scene([Machine(9, "", "", 9, cards)], [Ask(**{"cpus": 0, **ask})], Shape())
    return sentence(why_not(scene.room(), refused(scene)))


def test_of_shares_it_is_told_for_how_many_there_is_room_and_never_that_enough_is_free():
    assert told(1000, 1000, 400, tasks=3, milli=600) == "Needs 3 places of 0.6 of one GPU each; there are 2 now."
    assert told(500, 400, tasks=1, milli=800) == "Needs 1 place of 0.8 of one GPU each; there are 0 now."
    assert told(900, 0, tasks=3, memory=15_000) == "Needs 3 places of 15000 MiB of one GPU each; there are 2 now."
    assert told(300, tasks=1, milli=600) == "Needs 0.6 GPUs; at its turn 0.3 of 1 suitable ones were free."


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0, 300, 500, 1000]), max_size=4), min_size=1, max_size=3),
    st.integers(1, 4),
    st.sampled_from([{"gpus": 2}, {"gpus": 3}, {"milli": 400}, {"milli": 700}, {"memory": 15_000}]),
)
def test_a_number_that_is_free_is_less_than_the_number_that_is_needed(free, tasks, asked):
    machines = [
        Machine(99, "", "", 9, tuple(Card("A", 40_000, 0, 0, milli, 40 * milli, 0) for milli in own)) for own in free
    ]
    scene = Scene(machines, [Ask(tasks, 0, **asked)], Shape())
    if (gang := refused(scene)) is None:
        return
    reason = why_not(scene.room(), gang)
    most = reason.numbers.get("free_on_one_node", reason.numbers["free"])
    assert float(most) < float(reason.numbers["needed"]), sentence(reason)
    cards = [card for one in machines for card in one.cards]
    if reason.code == ReasonCode.INSUFFICIENT_GPUS:
        whole = sum(card.milli == 1000 for card in cards)
        assert float(most) == (whole if asked.get("gpus") else sum(card.milli for card in cards) / 1000)
    elif reason.code == ReasonCode.SHAPE:
        counted = (_held(one.cards, **asked) for one in machines)
        assert most == sum(counted)


def _held(cards: tuple[Card, ...], *, gpus: int = 0, milli: int = 0, memory: int = 0) -> int:
    if gpus:
        return sum(card.milli == 1000 for card in cards) // gpus
    return sum(card.milli // milli if milli else card.free // memory for card in cards)
