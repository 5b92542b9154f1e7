"""What fits a tiny cluster, by trying every way to put every task on every card: no rooms, no keys, no orders."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations


@dataclass(frozen=True)
class Ask:
    """One task: whole GPUs or a part of one, CPUs, and the models that will do (none named: any)."""

    gpus: int = 0
    milli: int = 0
    cpus: int = 0
    models: tuple[str, ...] = ()
    at: str = ""
    """Its role, where tasks of one role are cut into slices."""


@dataclass
class Machine:
    """What is free on one node: thousandths per card, CPUs."""

    milli: list[int]
    cpus: int
    model: str = "A100"
    islands: list[int] = field(default_factory=list)
    rack: str = ""

    def takes(self, ask: Ask, cards: Sequence[int]) -> bool:
        """True when the task fits on exactly these cards."""
        if ask.cpus > self.cpus or (cards and ask.models and self.model not in ask.models):
            return False
        return all(self.milli[k] >= (ask.milli or 1000) for k in cards)

    def add(self, ask: Ask, cards: Sequence[int], sign: int = 1) -> None:
        """What a task gives back, or with `sign` -1 takes."""
        self.cpus += sign * ask.cpus
        for k in cards:
            self.milli[k] += sign * (ask.milli or 1000)


Spot = tuple[int, tuple[int, ...]]
"""A node and the cards there."""


def spots(machines: Sequence[Machine], ask: Ask, domain: dict[int, list[int]]) -> Iterator[Spot]:
    """Every way to seat one task inside a domain (per node the cards that belong to it); equal cards only once."""
    for number, own in sorted(domain.items()):
        machine = machines[number]
        seen = set()
        for cards in combinations(own, ask.gpus or (1 if ask.milli else 0)):
            look = tuple(sorted((machine.milli[k], machine.islands[k] if machine.islands else 0) for k in cards))
            if look in seen or not machine.takes(ask, cards):
                continue
            seen.add(look)
            yield number, cards


def domains(machines: Sequence[Machine], level: str) -> list[dict[int, list[int]]]:
    """The domains of a level; a node without a rack is in none."""
    whole = {k: list(range(len(machine.milli))) for k, machine in enumerate(machines)}
    match level:
        case "":
            return [whole]
        case "node":
            return [{k: cards} for k, cards in whole.items()]
        case "nvlink":
            return [
                {k: [card for card in cards if machines[k].islands[card] == island]}
                for k, cards in whole.items()
                for island in sorted(set(machines[k].islands))
            ]
        case "rack":
            racks = sorted({machine.rack for machine in machines if machine.rack})
            return [{k: cards for k, cards in whole.items() if machines[k].rack == rack} for rack in racks]
    raise ValueError(level)


def ways(
    machines: Sequence[Machine], asks: Sequence[Ask], domain: dict[int, list[int]], first: int = 0
) -> Iterator[list[Spot]]:
    """Every way to seat all of these tasks; the machines are as they were after each.

    Equal tasks that follow each other go to nodes in order, from the node `first` on, since they may change places.
    """
    if not asks:
        yield []
        return
    if sum(ask.milli or 1000 * ask.gpus for ask in asks) > sum(
        sum(machines[k].milli[c] for c in domain[k]) for k in domain
    ):
        return
    for number, cards in spots(machines, asks[0], domain):
        if number < first:
            continue
        machines[number].add(asks[0], cards, -1)
        for rest in ways(machines, asks[1:], domain, number if asks[1:2] == asks[:1] else 0):
            machines[number].add(asks[0], cards)
            yield [(number, cards), *rest]
            machines[number].add(asks[0], cards, -1)
        machines[number].add(asks[0], cards)


@dataclass(frozen=True)
class Shape:
    """Slices of so many tasks inside a domain, at most so many tasks in one domain; empty levels ask for nothing."""

    slice_tasks: int = 0
    slice_level: str = ""
    spread_level: str = ""
    spread_most: int = 1

    def holds(self, machines: Sequence[Machine], asks: Sequence[Ask], way: Sequence[Spot]) -> bool:
        """Tasks of one role are equal, so slices exist exactly when every domain has a multiple of their size.

        A slice is of one model.
        """
        if self.spread_level:
            found = Counter(self._domain(machines, self.spread_level, spot[0]) for spot in way)
            if None in found or max(found.values()) > self.spread_most:
                return False
        if self.slice_tasks:
            parts = zip(asks, way, strict=True)
            own = Counter(
                (ask.at, machines[spot[0]].model if spot[1] else "", self._domain(machines, self.slice_level, spot[0]))
                for ask, spot in parts
            )
            return all(number % self.slice_tasks == 0 and domain is not None for (*_, domain), number in own.items())
        return True

    def _domain(self, machines: Sequence[Machine], level: str, number: int) -> str | None:
        return str(number) if level == "node" else machines[number].rack or None


def fits(machines: Sequence[Machine], asks: Sequence[Ask], level: str, shape: Shape | None = None) -> bool:
    """True when some way seats all of the tasks inside one domain of the level, in the shape asked for."""
    return any(
        shape is None or shape.holds(machines, asks, way)
        for domain in domains(machines, level)
        for way in ways(machines, asks, domain)
    )
