"""Tiny clusters and gangs of several roles, drawn at random, as the core reads them and as the enumeration does."""

from typing import NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_placement import BLOCK, RACK
from tests.make import node, spec, state_with
from tests.oracles.enumerated import MILLI, SLOTS, Ask, Card, Machine, Shape, part_of

from gangline_core.cluster import Gpu, Nic, Node
from gangline_core.facts import TaskPlacement
from gangline_core.job import GpuShare
from gangline_core.room.capacity import Room
from gangline_core.spec import JobSpec, Resources, Role, Toleration, TopologyWish

MEMORY = {"A": 40_000, "B": 80_000, "A30": 24_000}
CUT = "a30-24gb"
TASKS_MAX = 4
"""With more tasks no machine gets any more."""
SLICED = ("nvlink", "socket", "node", "rack", "block")
"""Levels of slices."""


class Scene(NamedTuple):
    """Machines with what is taken on them, and a gang."""

    machines: list[Machine]
    asks: list[Ask]
    shape: Shape

    @property
    def nodes(self) -> list[Node]:
        """The machines as agents describe them."""
        return [_node(k, one) for k, one in enumerate(self.machines)]

    def emptied(self) -> "Scene":
        """The same with nothing taken, all well and open."""
        empty = [
            one._replace(
                cards=tuple(
                    card._replace(
                        milli=1000, free=card.memory, slots=SLOTS["4g.24gb"][0] if card.is_cut else 0, is_sick=False
                    )
                    for card in one.cards
                ),
                taint="",
                is_drained=False,
            )
            for one in self.machines
        ]
        return self._replace(machines=empty)

    def room(self) -> Room:
        """What is free of them."""
        room = state_with(*self.nodes).room("default").copy()
        for k, one in enumerate(self.machines):
            for index, card in enumerate(one.cards):
                share = GpuShare(
                    index=index,
                    milli=1000 - card.milli,
                    memory_mib=card.memory - card.free,
                    slots=SLOTS["4g.24gb"][0] - card.slots if card.is_cut else 0,
                )
                if share.milli or share.memory_mib:
                    room.take(TaskPlacement(role="x", index=0, node=f"n{k}", gpus=(share,), cpu_milli=0, memory_mib=0))
            # What was taken had no place of its own.
            room.set_places(k, one.places)
        room.count_all()
        return room

    def spec(self) -> JobSpec:
        """The gang as a user asks for it."""
        shape = self.shape
        wish = TopologyWish(
            required=shape.required,
            slice_tasks=shape.unit,
            slice_level=shape.slices if shape.unit else "",
            spread_level=shape.spread,
            spread_most=shape.most or 1,
        )
        return spec(
            roles=[_role(f"r{k}", ask) for k, ask in enumerate(self.asks)],
            topology=wish,
            same_model=shape.same_model,
            exclude_nodes=tuple(f"n{k}" for k, one in enumerate(self.machines) if one.is_excluded),
        )


def _node(k: int, one: Machine) -> Node:
    names = ((RACK, one.rack), (BLOCK, one.block), ("zone", one.zone))
    labels = {label: name for label, name in names if name}
    near = sorted({(card.socket, card.switch) for card in one.cards if card.is_near})
    made = node(
        f"n{k}",
        gpus=0,
        cpus=one.cpus,
        labels=labels,
        tasks_max=one.places,
        devices={"rdma": one.devices},
        taints=[one.taint] if one.taint else [],
        drained=one.is_drained,
        nics=tuple(Nic(name=f"ib{socket}{switch}", socket=socket, switch=switch) for socket, switch in near),
    )
    gpus = tuple(
        Gpu(
            index=index,
            model=card.model,
            memory_mib=card.memory,
            uuid=f"GPU-{k}-{index}",
            island=card.island,
            socket=card.socket,
            switch=card.switch,
            healthy=not card.is_sick,
            mig=CUT if card.is_cut else "",
        )
        for index, card in enumerate(one.cards)
    )
    return replace(made, gpus=gpus)


def _role(name: str, ask: Ask) -> Role:
    milli = ask.gpus * 1000 or (MILLI[ask.mig] if ask.mig else ask.milli)
    need = Resources(
        gpu_milli=milli,
        gpu_memory_mib=ask.memory,
        gpu_models=ask.models,
        cpu_milli=ask.cpus * 1000,
        memory_mib=1,
        mig=ask.mig,
        devices={"rdma": ask.devices} if ask.devices else {},
        near_nic=ask.is_near,
        exclude_models=(ask.without,) if ask.without else (),
    )
    return Role(
        name=name,
        count=ask.tasks,
        min_count=ask.tasks,
        max_count=ask.tasks,
        resources=need,
        command=("true",),
        node_selector={"zone": ask.zone} if ask.zone else None,
        tolerations=(Toleration(key=ask.tolerates),) if ask.tolerates else None,
    )


# --- drawn at random ----------------------------------------------------------------------------------------------


@st.composite
def tight_scenes(draw: st.DrawFn, *, kinds: tuple[str, ...], levels: tuple[str, ...], sockets: int = 1) -> Scene:
    """Machines that have exactly what some tasks on them take, or one CPU less: orders of roles matter there."""
    unit = draw(st.sampled_from([1, 2])) if "slices" in kinds else 0
    asks = draw(st.lists(_asks(kinds=kinds, unit=1), min_size=2, max_size=3))
    machines, held = [], [0] * len(asks)
    for _ in range(draw(st.integers(2, 4))):
        own = [draw(st.integers(0, 2)) if sum(held) < TASKS_MAX else 0 for _ in asks]
        machines.append(draw(_filled(asks, own, kinds=kinds, sockets=sockets)))
        held = [before + here for before, here in zip(held, own, strict=True)]
    if draw(st.booleans()):
        k = draw(st.integers(0, len(machines) - 1))
        machines[k] = machines[k]._replace(cpus=max(0, machines[k].cpus - 1))
    step = unit or 1
    wanted = [ask._replace(tasks=number - number % step) for ask, number in zip(asks, held, strict=True)]
    wanted = [ask for ask in wanted if ask.tasks] or [asks[0]._replace(tasks=step)]
    if "rest" in kinds:
        machines = [draw(_with_rest(one, spare=sum(ask.devices * ask.tasks for ask in wanted))) for one in machines]
    return Scene(machines, wanted, draw(_shapes(kinds=kinds, levels=levels, unit=unit)))


@st.composite
def _with_rest(draw: st.DrawFn, one: Machine, *, spare: int = 1) -> Machine:
    """The machine with PCIe switches, network cards, other devices, and now and then a taint, a drain or sick cards."""
    near = draw(st.sampled_from([(0,), (1,), (0, 1), (0, 1)]))
    has_switches = draw(st.integers(0, 4)) > 0
    cards = [
        card._replace(
            switch=k // 2 if has_switches else -1,
            is_near=has_switches and k // 2 in near,
            is_sick=draw(st.integers(0, 15)) == 0,
        )
        for k, card in enumerate(one.cards)
    ]
    # A network card is under a switch of a socket, and near all cards there.
    under = {(card.socket, card.switch) for card in cards if card.is_near}
    cards = [card._replace(is_near=(card.socket, card.switch) in under) for card in cards]
    return one._replace(
        cards=tuple(cards),
        devices=draw(st.sampled_from([spare, spare, 1, 0])),
        taint=draw(st.sampled_from(["", "", "", "", "t", "u"])),
        is_drained=draw(st.integers(0, 11)) == 0,
    )


@st.composite
def _filled(draw: st.DrawFn, asks: list[Ask], own: list[int], *, kinds: tuple[str, ...], sockets: int) -> Machine:
    """A machine with room for so many tasks of each role and little more."""
    cards: list[Card] = []
    for ask, number in zip(asks, own, strict=True):
        for _ in range(number if ask.wants_gpu else 0):
            model = draw(st.sampled_from(ask.models or (("A", "B") if "models" in kinds else ("A",))))
            for _ in range(ask.gpus):
                large = "B" if ask.memory > MEMORY["A"] else model
                cards.append(Card(large, MEMORY[large], 0, 0, 1000, MEMORY[large], 0))
            if ask.mig:
                cards = _with_slice(cards, ask.mig)
            elif not ask.gpus:
                cards = _with_share(cards, ask, model)
    placed = tuple(card._replace(island=k // 2, socket=k % sockets) for k, card in enumerate(cards))
    block = draw(st.sampled_from(["b0", "b1", ""]))
    where = "where" in kinds
    return Machine(
        cpus=sum(ask.cpus * number for ask, number in zip(asks, own, strict=True)),
        rack=draw(st.sampled_from([f"{block}r0", f"{block}r1", ""])),
        block=block,
        places=max(1, sum(own)) + draw(st.integers(0, 1)),
        cards=placed,
        zone=draw(st.sampled_from([*(ask.zone for ask in asks), ""])) if where else "",
        is_excluded=where and draw(st.integers(0, 5)) == 0,
    )


def _with_share(cards: list[Card], ask: Ask, model: str) -> list[Card]:
    """The cards with just so much more free that one more share fits, on the last one if it takes it."""
    blank = Card(model, MEMORY[model], 0, 0, 0, 0, 0)
    last = cards[-1] if cards and not cards[-1].is_cut and cards[-1].milli < 1000 else None
    for card in (last, blank):
        if card is not None and (not ask.models or card.model in ask.models):
            milli, memory = part_of(ask, card)
            if card.milli + milli <= 1000 and card.free + memory <= card.memory:
                grown = card._replace(milli=card.milli + milli, free=card.free + memory)
                return [*(cards[:-1] if card is last else cards), grown]
    return cards


def _with_slice(cards: list[Card], profile: str) -> list[Card]:
    """The same for a slice of a cut card."""
    for k, card in enumerate(cards):
        for mask in SLOTS[profile] if card.is_cut else ():
            if card.slots & mask == 0:
                slots = card.slots | mask
                milli = 250 * slots.bit_count()
                return [*cards[:k], card._replace(slots=slots, milli=milli, free=24 * milli), *cards[k + 1 :]]
    mask = SLOTS[profile][-1]
    milli = 250 * mask.bit_count()
    return [*cards, Card("A30", 24_000, 0, 0, milli, 24 * milli, mask, is_cut=True)]


@st.composite
def scenes(draw: st.DrawFn, *, kinds: tuple[str, ...], levels: tuple[str, ...], sockets: int = 1) -> Scene:
    """Up to four machines of up to three GPUs, and up to six tasks in up to three roles."""
    machines = draw(
        st.lists(
            _machines(kinds=kinds, sockets=sockets),
            min_size=1,
            max_size=4,
        )
    )
    unit = draw(st.sampled_from([1, 2])) if "slices" in kinds else 0
    if "rest" in kinds:
        machines = [draw(_with_rest(one)) for one in machines]
    asks = draw(st.lists(_asks(kinds=kinds, unit=unit or 1), min_size=1 if "one" in kinds else 2, max_size=3))
    return Scene(machines, asks, draw(_shapes(kinds=kinds, levels=levels, unit=unit)))


@st.composite
def _shapes(draw: st.DrawFn, *, kinds: tuple[str, ...], levels: tuple[str, ...], unit: int) -> Shape:
    spread = "spread" in kinds and draw(st.booleans())
    return Shape(
        required=draw(st.sampled_from(levels)),
        unit=unit,
        slices=draw(st.sampled_from([*(["switch"] if "rest" in kinds else []), *SLICED])) if unit else "",
        most=draw(st.integers(1, 3)) if spread else 0,
        spread=draw(st.sampled_from(["node", "rack", "block"])) if spread else "",
        same_model="models" in kinds and draw(st.booleans()),
    )


@st.composite
def _machines(draw: st.DrawFn, *, kinds: tuple[str, ...], sockets: int) -> Machine:
    count = draw(st.integers(0, 3))
    common = draw(st.sampled_from(["A", "B"])) if "models" in kinds else "A"
    is_cut = "mig" in kinds and draw(st.booleans())
    cards = []
    for index in range(count):
        model = draw(st.sampled_from(["A", "B"])) if "models" in kinds and draw(st.integers(0, 3)) == 0 else common
        island, socket = index // 2, index % sockets
        if is_cut and index == 0:
            slots = draw(st.sampled_from([0b1111, 0b1110, 0b0111, 0b1100, 0b1001, 0b0110]))
            milli = 250 * slots.bit_count()
            cards.append(Card("A30", 24_000, island, socket, milli, 24 * milli, slots, is_cut=True))
            continue
        free = draw(st.sampled_from([1000, 1000, 1000, 700, 500, 0]))
        cards.append(Card(model, MEMORY[model], island, socket, free, MEMORY[model] * free // 1000, 0))
    block = draw(st.sampled_from(["b0", "b0", "b1", ""]))
    rack = draw(st.sampled_from([f"{block}r0", f"{block}r1", ""]))
    where = "where" in kinds
    return Machine(
        cpus=draw(st.sampled_from([1, 2, 3, 4, 8])),
        rack=rack,
        block=block,
        places=draw(st.sampled_from([1, 2, 9, 9])),
        cards=tuple(cards),
        zone=draw(st.sampled_from(["a", "b", ""])) if where else "",
        is_excluded=where and draw(st.integers(0, 3)) == 0,
    )


@st.composite
def _asks(draw: st.DrawFn, *, kinds: tuple[str, ...], unit: int) -> Ask:
    ask = draw(_tasks(kinds=kinds, unit=unit))
    if "rest" in kinds:
        ask = ask._replace(
            devices=draw(st.sampled_from([0, 0, 1])),
            is_near=ask.wants_gpu and draw(st.integers(0, 4)) == 0,
            tolerates=draw(st.sampled_from(["", "t", "t", "u"])),
            without=draw(st.sampled_from(["", "", "", "", "B"])) if ask.wants_gpu and not ask.mig else "",
        )
    return ask._replace(zone=draw(st.sampled_from(["", "a", "b"]))) if "where" in kinds else ask


@st.composite
def _tasks(draw: st.DrawFn, *, kinds: tuple[str, ...], unit: int) -> Ask:
    tasks = unit * draw(st.integers(1, 2))
    cpus = draw(st.integers(0, 3))
    sort = draw(
        st.sampled_from([k for k in ("whole", "whole", "cpu", "share", "memory", "mig") if k in (*kinds, "whole")])
    )
    models = draw(st.sampled_from([(), (), ("A",), ("B",), ("B", "A")])) if "models" in kinds else ()
    match sort:
        case "cpu":
            return Ask(tasks, cpus)
        case "share":
            memory = draw(st.sampled_from([0, 0, 10_000]))
            return Ask(
                tasks, cpus, milli=draw(st.sampled_from([250, 300, 400, 500, 600])), memory=memory, models=models
            )
        case "memory":
            return Ask(tasks, cpus, memory=draw(st.sampled_from([10_000, 15_000, 25_000])), models=models)
        case "mig":
            return Ask(tasks, cpus, mig=draw(st.sampled_from(sorted(SLOTS))))
        case _:
            memory = draw(st.sampled_from([0, 0, 60_000])) if "models" in kinds else 0
            return Ask(tasks, cpus, gpus=draw(st.integers(1, 2)), memory=memory, models=models)
