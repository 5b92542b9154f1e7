"""Every way to seat a gang of several roles on a tiny cluster, tried one after the other.

Nothing here knows of rooms, keys, orders or counts: tasks take GPUs one by one, and what was seen before is skipped.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

SLOTS = {"1g.6gb": (0b0001, 0b0010, 0b0100, 0b1000), "2g.12gb": (0b0011, 0b1100), "4g.24gb": (0b1111,)}
"""Where slices of an A30 may begin (NVIDIA's Multi-Instance GPU User Guide)."""
MILLI = {"1g.6gb": 250, "2g.12gb": 500, "4g.24gb": 1000}


CLOSE = ("nvlink", "switch", "socket")


class Card(NamedTuple):
    """One GPU: what it is, and what is free of it."""

    model: str
    memory: int
    island: int
    socket: int
    milli: int
    free: int
    slots: int
    is_cut: bool = False
    switch: int = -1
    is_near: bool = False
    """A network card is under its switch."""
    is_sick: bool = False

    @property
    def is_whole(self) -> bool:
        return self.milli == 1000 and self.free == self.memory and not self.is_cut


class Machine(NamedTuple):
    """One node."""

    cpus: int
    rack: str
    block: str
    places: int
    cards: tuple[Card, ...]
    zone: str = ""
    is_excluded: bool = False
    devices: int = 0
    taint: str = ""
    is_drained: bool = False


class Ask(NamedTuple):
    """One role."""

    tasks: int
    cpus: int
    gpus: int = 0
    milli: int = 0
    memory: int = 0
    mig: str = ""
    models: tuple[str, ...] = ()
    zone: str = ""
    devices: int = 0
    is_near: bool = False
    tolerates: str = ""
    without: str = ""
    """A model that will not do."""

    @property
    def wants_gpu(self) -> bool:
        return bool(self.gpus or self.milli or self.memory or self.mig)


class Shape(NamedTuple):
    """How the gang has to stand."""

    required: str = ""
    unit: int = 0
    slices: str = ""
    most: int = 0
    spread: str = ""
    same_model: bool = False


Spot = tuple[int, tuple[int, ...], int]
"""Node, cards, and the slots of a slice."""


def fits(machines: list[Machine], asks: list[Ask], shape: Shape) -> bool:
    """True when some way to seat all tasks keeps the shape."""
    return any(
        _seat(part, own, shape)
        for part in parts(machines, shape.required, asks)
        for own in _by_model(machines, asks, shape)
    )


def _by_model(machines: list[Machine], asks: list[Ask], shape: Shape) -> list[list[Ask]]:
    """The same roles on each model alone, where all GPUs have to be of one."""
    if not shape.same_model:
        return [asks]
    models = sorted({card.model for one in machines for card in one.cards}) or ["none"]
    return [
        [ask._replace(models=(one,) if one in (ask.models or models) else ("none",)) for ask in asks] for one in models
    ]


def parts(machines: list[Machine], level: str, asks: list[Ask]) -> Iterator[list[Machine]]:
    """The machines cut down to each domain of a level; others have nothing left."""
    empty = Machine(0, "", "", 0, ())
    if level in CLOSE and not any(ask.wants_gpu for ask in asks):
        level = "node"
    if level == "":
        yield machines
    elif level in (*CLOSE, "node"):
        for k, one in enumerate(machines):
            numbers = sorted({_part(card, level) for card in one.cards} - {None}) if level != "node" else [(0,)]
            for number in numbers:
                # Cards keep their places: those outside of the part are used up.
                gone = {"milli": -1, "free": -1, "slots": 0}
                cards = tuple(c if _part(c, level) == number else c._replace(**gone) for c in one.cards)
                yield [empty] * k + [one._replace(cards=cards)] + [empty] * (len(machines) - k - 1)
    else:
        for name in sorted({getattr(one, level) for one in machines} - {""}):
            yield [one if getattr(one, level) == name else empty for one in machines]


def _part(card: Card, level: str) -> object:
    """The part of its machine in which a card is; None where it is in none."""
    switch = None if card.switch < 0 else (card.socket, card.switch)
    return {"nvlink": (card.island,), "socket": (card.socket,), "switch": switch, "node": (0,)}[level]


def _seat(machines: list[Machine], asks: list[Ask], shape: Shape) -> bool:
    """Task after task, wherever it fits; the same state is never looked at twice."""
    order = [k for k, ask in enumerate(asks) for _ in range(ask.tasks)]
    seen: set[object] = set()

    def go(index: int, state: tuple[Machine, ...], slices: tuple, spread: tuple) -> bool:
        if index == len(order):
            return all(number % shape.unit == 0 for _, number in slices) if shape.unit else True
        key = (index, state, slices, spread)
        if key in seen:
            return False
        seen.add(key)
        k = order[index]
        for spot in spots(state, asks[k]):
            apart = _added(spread, domain(machines, state, spot, shape.spread), shape.most) if shape.spread else ()
            own = domain(machines, state, spot, shape.slices) if shape.unit else ()
            if apart is None or own is None:
                continue
            model = state[spot[0]].cards[spot[1][0]].model if spot[1] else ""
            cut = _added(slices, (k, own, model), 1 << 20) if shape.unit else ()
            if go(index + 1, taken(state, asks[k], spot), cut, apart):
                return True
        return False

    return go(0, tuple(machines), (), ())


def _added(counts: tuple, key: object, most: int) -> tuple | None:
    """The counts with one more, as a value; None where there is no such place or it has too many."""
    if key is None:
        return None
    found = Counter(dict(counts))
    found[key] += 1
    return tuple(sorted(found.items(), key=repr)) if found[key] <= most else None


def domain(machines: list[Machine], state: tuple[Machine, ...], spot: Spot, level: str) -> object:
    """The domain of a level in which a task would stand; None when in none, or across two."""
    node, cards, _ = spot
    if level in CLOSE:
        found = {_part(state[node].cards[k], level) for k in cards}
        return (node, *found.pop()) if len(found) == 1 and None not in found else None
    if level == "node":
        return node
    return getattr(machines[node], level, "") or None


def spots(state: tuple[Machine, ...], ask: Ask) -> Iterator[Spot]:
    """Everywhere one task may go."""
    for node, one in enumerate(state):
        if one.places < 1 or one.cpus < ask.cpus or one.devices < ask.devices or not _is_open(one, ask):
            continue
        if not ask.wants_gpu:
            yield node, (), 0
            continue
        may = [k for k, card in enumerate(one.cards) if _may_use(ask, card)]
        if ask.gpus:
            whole = [k for k in may if one.cards[k].is_whole and one.cards[k].memory >= ask.memory]
            for chosen in combinations(whole, ask.gpus):
                if len({one.cards[k].model for k in chosen}) == 1:
                    yield node, chosen, 0
        else:
            yield from ((node, (k,), mask) for k in may for mask in _on_card(ask, one.cards[k]))


def _is_open(one: Machine, ask: Ask) -> bool:
    """True when the machine takes work of this role."""
    closed = one.is_excluded or one.is_drained or one.taint not in ("", ask.tolerates)
    return not closed and ask.zone in ("", one.zone)


def _may_use(ask: Ask, card: Card) -> bool:
    """True when the card will do, however much of it is free."""
    is_named = (not ask.models or card.model in ask.models) and card.model != ask.without
    return is_named and not card.is_sick and (card.is_near or not ask.is_near)


def _on_card(ask: Ask, card: Card) -> Iterator[int]:
    """The slots of a slice, each way it may lie; 0 for a share that fits."""
    if ask.mig:
        yield from (mask for mask in SLOTS[ask.mig] if card.is_cut and card.slots & mask == mask)
        return
    milli, memory = part_of(ask, card)
    if not card.is_cut and milli <= card.milli and memory <= card.free:
        yield 0


def part_of(ask: Ask, card: Card) -> tuple[int, int]:
    """Thousandths and MiB that a share takes; what was not asked for follows the other."""
    if ask.milli and ask.memory:
        return ask.milli, ask.memory
    if ask.milli:
        return ask.milli, card.memory * ask.milli // 1000
    return max(1, ask.memory * 1000 // card.memory), ask.memory


def taken(state: tuple[Machine, ...], ask: Ask, spot: Spot) -> tuple[Machine, ...]:
    """The machines after a task took its place."""
    node, chosen, mask = spot
    cards = list(state[node].cards)
    for k in chosen:
        card = cards[k]
        if ask.gpus:
            cards[k] = card._replace(milli=0, free=0)
        elif ask.mig:
            cards[k] = card._replace(slots=card.slots & ~mask)
        else:
            milli, memory = part_of(ask, card)
            cards[k] = card._replace(milli=card.milli - milli, free=card.free - memory)
    left = {"cpus": state[node].cpus - ask.cpus, "devices": state[node].devices - ask.devices}
    one = state[node]._replace(**left, places=state[node].places - 1, cards=tuple(cards))
    return (*state[:node], one, *state[node + 1 :])


def keeps(machines: list[Machine], asks: list[Ask], shape: Shape, seats: list[tuple[int, Spot]]) -> bool:
    """True when seats, (role, spot) in rank order, stand where they may, inside the level, in slices and apart."""
    state = tuple(machines)
    if not all(_is_open(machines[node], asks[k]) for k, (node, _, _) in seats):
        return False
    if not all(_may_use(asks[k], machines[node].cards[card]) for k, (node, cards, _) in seats for card in cards):
        return False

    def among(level: str, some: list[Spot]) -> list[object]:
        return [domain(machines, state, spot, level) for spot in some]

    spots = [spot for _, spot in seats]
    if shape.required in CLOSE:
        # Who has no GPU stands in no part of a node, only on it.
        inside = among(shape.required, [spot for spot in spots if spot[1]])
        if len({node for node, _, _ in spots}) > 1 or len(set(inside)) > 1 or None in inside:
            return False
    elif shape.required and (len(set(among(shape.required, spots))) > 1 or None in among(shape.required, spots)):
        return False
    apart = Counter(among(shape.spread, spots)) if shape.spread else Counter()
    if None in apart or any(number > shape.most for number in apart.values()):
        return False
    return not shape.unit or all(
        _is_slice(machines, own[at : at + shape.unit], shape)
        for k in range(len(asks))
        for own in [[spot for role, spot in seats if role == k]]
        for at in range(0, len(own), shape.unit)
    )


def _is_slice(machines: list[Machine], spots: list[Spot], shape: Shape) -> bool:
    """True when these tasks stand in one domain and on one model."""
    found = {domain(machines, tuple(machines), spot, shape.slices) for spot in spots}
    models = {machines[node].cards[cards[0]].model if cards else "" for node, cards, _ in spots}
    return len(found) == 1 and None not in found and len(models) == 1
