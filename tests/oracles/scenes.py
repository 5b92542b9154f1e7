"""Tiny clusters and gangs of several roles, drawn at random, as the core reads them and as the enumeration does."""

from typing import NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_placement import BLOCK, RACK
from tests.make import node, spec, state_with
from tests.oracles.enumerated import MILLI, SLOTS, Ask, Card, Machine, Shape

from gangline_core.capacity import Room
from gangline_core.cluster import Gpu, Node
from gangline_core.facts import TaskPlacement
from gangline_core.job import GpuShare
from gangline_core.spec import JobSpec, Resources, Role, TopologyWish

MEMORY = {"A": 40_000, "B": 80_000, "A30": 24_000}
CUT = "a30-24gb"


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
        """The same with nothing taken."""
        empty = [
            one._replace(
                cards=tuple(
                    card._replace(milli=1000, free=card.memory, slots=SLOTS["4g.24gb"][0] if card.is_cut else 0)
                    for card in one.cards
                )
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
    made = node(f"n{k}", gpus=0, cpus=one.cpus, labels=labels, tasks_max=one.places)
    gpus = tuple(
        Gpu(
            index=index,
            model=card.model,
            memory_mib=card.memory,
            uuid=f"GPU-{k}-{index}",
            island=card.island,
            socket=card.socket,
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
    )
    return Role(
        name=name,
        count=ask.tasks,
        min_count=ask.tasks,
        max_count=ask.tasks,
        resources=need,
        command=("true",),
        node_selector={"zone": ask.zone} if ask.zone else None,
    )


# --- drawn at random ----------------------------------------------------------------------------------------------


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
    asks = draw(st.lists(_asks(kinds=kinds, unit=unit or 1), min_size=1 if "one" in kinds else 2, max_size=3))
    spread = "spread" in kinds and draw(st.booleans())
    shape = Shape(
        required=draw(st.sampled_from(levels)),
        unit=unit,
        slices=draw(st.sampled_from(["nvlink", "socket", "node", "rack", "block"])) if unit else "",
        most=draw(st.integers(1, 3)) if spread else 0,
        spread=draw(st.sampled_from(["node", "rack", "block"])) if spread else "",
        same_model="models" in kinds and draw(st.booleans()),
    )
    return Scene(machines, asks, shape)


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
