"""Machines in short: `64x8xV100` is 64 nodes with 8 GPUs each, `2x8xV100,4x4xP100` two kinds of them."""

import re

from msgspec import Struct

SHORT = re.compile(r"(\d{1,6})x(\d{1,4})(?:x([A-Za-z0-9_.-]{1,40}))?", re.ASCII)
USUAL_MODEL = "GPU"
CPUS_PER_GPU, MEMORY_MIB_PER_GPU = 16, 65_536
"""Main machine beside each GPU that nobody described: enough to be never what is short."""
NODES_MAX = 100_000


class Machines(Struct, frozen=True):
    """Equal machines: how many, their GPUs each, and the model of those."""

    count: int
    gpus: int
    model: str


def read_short(text: str) -> tuple[Machines, ...]:
    """The machines of a short form, kind by kind; empty when the text is none."""
    parts = [SHORT.fullmatch(part.strip()) for part in text.split(",")]
    if not all(parts):
        return ()
    return tuple(
        Machines(count=int(part[1]), gpus=int(part[2]), model=part[3] or USUAL_MODEL) for part in parts if part
    )
