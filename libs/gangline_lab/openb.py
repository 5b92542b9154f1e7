"""The openb node list: GPU machines of a production cluster (data/README.md has source, licence and columns)."""

from pathlib import Path

from msgspec import Struct

from gangline_core.cluster import Gpu, Node
from gangline_core.ids import NodeId
from gangline_lab.rows import Row, TraceError, read_rows

NODE_LIST = Path(__file__).parent / "data" / "openb_nodes.csv"
"""The whole list of 1,213 machines."""

COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
GPUS_MAX = 64
"""Most GPUs of one machine that are believed."""

GPU_MEMORY_MIB = {
    "A10": 22_731,
    "G2": 20_000,
    "G3": 30_000,
    "P100": 16_280,
    "T4": 15_109,
    "V100M16": 16_160,
    "V100M32": 32_510,
}
"""Memory of one GPU by model. The list does not have it; these are the values that the simulator published with it
assumes (G2 and G3, which stand for models not named, are round numbers there)."""


class Machine(Struct, frozen=True):
    """One machine of the list."""

    name: str
    cpu_milli: int
    """Thousandths of a core."""
    memory_mib: int
    gpus: int
    model: str

    @property
    def gpu_memory_mib(self) -> int:
        """Memory of each of its GPUs."""
        return GPU_MEMORY_MIB[self.model]


def read_machines(path: Path = NODE_LIST) -> tuple[Machine, ...]:
    """All machines in the order of the list.

    Raises:
        TraceError: with line and column.
    """
    machines = tuple(_machine(row) for row in read_rows(path, COLUMNS))
    if not machines:
        raise TraceError("has no machines", file=path.name, line=1)
    names: dict[str, int] = {}
    for index, machine in enumerate(machines):
        if machine.name in names:
            first = names[machine.name] + 2
            raise TraceError(f"{machine.name} stands on line {first} already", file=path.name, line=index + 2)
        names[machine.name] = index
    return machines


def _machine(row: Row) -> Machine:
    model = row.text("model")
    if model not in GPU_MEMORY_MIB:
        raise row.error("model", f"unknown GPU model {model!r}; known are {', '.join(sorted(GPU_MEMORY_MIB))}")
    return Machine(
        name=row.text("sn"),
        cpu_milli=row.whole("cpu_milli", least=1),
        memory_mib=row.whole("memory_mib", least=1),
        gpus=row.whole("gpu", least=1, most=GPUS_MAX),
        model=model,
    )


def node(machine: Machine, *, agent: str, pool: str, labels: dict[str, str]) -> Node:
    """The machine as a node of a cluster, carried by this agent."""
    return Node(
        id=NodeId(machine.name),
        agent=agent,
        cpu_milli=machine.cpu_milli,
        memory_mib=machine.memory_mib,
        gpus=tuple(
            Gpu(
                index=index,
                model=machine.model,
                memory_mib=machine.gpu_memory_mib,
                uuid=f"SIM-{machine.name}-{index}",
                socket=2 * index // max(machine.gpus, 2),
            )
            for index in range(machine.gpus)
        ),
        pool=pool,
        labels=labels,
    )
