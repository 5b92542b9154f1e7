"""A watch over the scratch room that decisions are made on: it never holds more than the node has.

A decision gives a victim's room back to see who fits then. Whoever gives the same room twice plans on room that does
not exist, and the books show it only if somebody is placed there. So the dollhouse looks at every `give` itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gangline_core.room.capacity import Holding, Room

Tell = Callable[[str], None]


@contextmanager
def watched(tell: Tell) -> Iterator[None]:
    """While this lasts, `tell` hears of every room that was given more than there is."""
    whole = Room.give

    def give(self: Room, holding: Holding) -> None:
        whole(self, holding)
        fault = fault_of(self, holding)
        if fault:
            tell(fault)

    Room.give = give  # type: ignore[method-assign]  # the dollhouse looks over the shoulder of whoever decides
    try:
        yield
    finally:
        Room.give = whole  # type: ignore[method-assign]  # as it was


def fault_of(room: Room, holding: Holding) -> str:
    """What is too much on the node of this holding; "" when nothing is."""
    row = room.layout.row.get(holding.node)
    if row is None:
        return ""
    node = room.nodes[row]
    free = {"CPU thousandths": (int(room.cpu[row]), node.cpu_milli), "MiB": (int(room.memory[row]), node.memory_mib)}
    for share in holding.gpus:
        if share.index < len(node.gpus):
            gpu = node.gpus[share.index]
            free[f"thousandths of GPU {gpu.index}"] = int(room.milli[row, share.index]), 1000
            free[f"MiB of GPU {gpu.index}"] = int(room.gpu_memory[row, share.index]), gpu.memory_mib
    wrong = [f"{found} {what} free of {there_is}" for what, (found, there_is) in free.items() if found > there_is]
    return f"a decision counts on {', '.join(wrong)} on {holding.node}" if wrong else ""
