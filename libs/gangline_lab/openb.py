"""The openb node list: GPU machines of a production cluster (data/README.md has source, licence and columns)."""

from pathlib import Path

from msgspec import Struct

from gangline_lab.rows import Row, TraceError, read_rows

NODE_LIST = Path(__file__).parent / "data" / "openb_nodes.csv"
"""The whole list of 1,213 machines."""

COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
GPUS_MAX = 64
"""Most GPUs of one machine that are believed."""

MODELS = frozenset({"A10", "G2", "G3", "P100", "T4", "V100M16", "V100M32"})
"""GPU models of the list; G2 and G3 are models that its publisher did not name."""


class Machine(Struct, frozen=True):
    """One machine of the list."""

    name: str
    cpu_milli: int
    """Thousandths of a core."""
    memory_mib: int
    gpus: int
    model: str


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
    if model not in MODELS:
        raise row.error("model", f"unknown GPU model {model!r}; known are {', '.join(sorted(MODELS))}")
    return Machine(
        name=row.text("sn"),
        cpu_milli=row.whole("cpu_milli", least=1),
        memory_mib=row.whole("memory_mib", least=1),
        gpus=row.whole("gpu", least=1, most=GPUS_MAX),
        model=model,
    )
