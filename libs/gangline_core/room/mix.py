"""What tasks usually ask for in a pool: the mix against which free room is judged useful or useless."""

from collections.abc import Iterable

from msgspec import Struct

from gangline_core.spec import GPU_MILLI, Resources

SHARE_COVERED_PERCENT = 95
"""The most frequent kinds of task until so many per cent of all tasks are covered (FGD, ATC 2023, 4.2)."""
KINDS_MAX = 128
"""More kinds of task than this are not told apart; the rarest are left out."""


class Typical(Struct, frozen=True, order=True):
    """A kind of task and how often it is asked for."""

    cpu_milli: int
    gpus: int
    """GPUs that are used; 0 for a task without any."""
    milli: int
    """Thousandths of each GPU."""
    models: tuple[str, ...] = ()
    """Acceptable models in lower case; empty accepts any."""
    exclude_models: tuple[str, ...] = ()
    weight: int = 1

    def accepts(self, model: str) -> bool:
        """True when a GPU of this model (in lower case) will do."""
        return (not self.models or model in self.models) and model not in self.exclude_models


class Mix(Struct, frozen=True):
    """Kinds of task, most frequent first."""

    tasks: tuple[Typical, ...] = ()

    @property
    def total(self) -> int:
        """All weights together."""
        return sum(task.weight for task in self.tasks)


STANDARD = Mix(
    tasks=(
        Typical(cpu_milli=8_000, gpus=1, milli=GPU_MILLI, weight=32),
        Typical(cpu_milli=4_000, gpus=1, milli=GPU_MILLI // 2, weight=16),
        Typical(cpu_milli=64_000, gpus=8, milli=GPU_MILLI, weight=12),
        Typical(cpu_milli=16_000, gpus=2, milli=GPU_MILLI, weight=24),
        Typical(cpu_milli=32_000, gpus=4, milli=GPU_MILLI, weight=16),
    )
)
"""Stands in while too few jobs are known to say what is typical: every size, small ones more often."""


def mix_of(tasks: Iterable[Typical]) -> Mix:
    """The most frequent kinds among these, until 95 % of them are covered; equal ones are counted together.

    Ties are broken by what is asked, so the order in which tasks come does not matter.
    """
    counted: dict[tuple[int, int, int, tuple[str, ...], tuple[str, ...]], int] = {}
    for task in tasks:
        key = (task.cpu_milli, task.gpus, task.milli, task.models, task.exclude_models)
        counted[key] = counted.get(key, 0) + task.weight
    total = sum(counted.values())
    chosen: list[Typical] = []
    covered = 0
    for key, weight in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        if covered * 100 >= SHARE_COVERED_PERCENT * total or len(chosen) >= KINDS_MAX:
            break
        chosen.append(Typical(*key, weight=weight))
        covered += weight
    return Mix(tasks=tuple(chosen))


def typical_of(resources: Resources) -> Typical | None:
    """The kind of a task of these resources; None where it asks by memory or slice, which thousandths do not tell."""
    if resources.wants_gpu and not resources.gpu_milli:
        return None
    whole = resources.whole_gpus
    return Typical(
        cpu_milli=resources.cpu_milli,
        gpus=whole or int(resources.is_gpu_share),
        milli=GPU_MILLI if whole else resources.gpu_milli,
        models=tuple(sorted(model.lower() for model in resources.gpu_models)),
        exclude_models=tuple(sorted(model.lower() for model in resources.exclude_models)),
    )
