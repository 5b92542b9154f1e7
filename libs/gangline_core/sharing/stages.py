"""How long an iteration takes jobs that interleave their stages on the same GPUs.

Zhao et al., "Multi-Resource Interleaving for Deep Learning Training" (Muri, SIGCOMM 2022), section 4.1: an iteration
reads and prepares its data, computes, and exchanges gradients, and each of these keeps another resource busy. Time goes
round in four slots; reading takes two of them (storage, then CPU), and jobs that begin in different slots are never at
the same stage. A slot lasts as long as the longest stage in it, except that two slots of reading need not be of equal
length. Of all orders of the jobs the best one counts.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

from msgspec import Struct

from gangline_core.spec import JobSpec

SLOTS = 4
"""Most jobs of a company: one for each slot."""
COST_PERMILLE = (1_000, 1_291, 1_456, 1_330)
"""What an iteration takes beside others, for companies of one to four, over what it would without any hindrance: as
measured by Muri's authors, in their artefact."""
MICRO = 1_000_000


class Stages(Struct, frozen=True, order=True):
    """One iteration of a job, in us: its stages, and what all of it takes alone."""

    loading_us: int
    compute_us: int
    network_us: int
    iteration_us: int


def stages_of(spec: JobSpec) -> Stages | None:
    """What a job says of its stages (attributes in ms); None when it does not, or says nonsense."""
    told = [spec.attributes.get(name) for name in ("loading_ms", "compute_ms", "network_ms", "iteration_ms")]
    numbers = [one for one in told if isinstance(one, int | float) and not isinstance(one, bool) and one >= 0]
    if len(numbers) < len(told):
        return None
    found = Stages(*(round(1000 * number) for number in numbers))
    return found if found.iteration_us and found.loading_us + found.compute_us + found.network_us else None


def iteration_us(company: Sequence[Stages]) -> int:
    """What one iteration of each takes while all of these share their GPUs."""
    alone = len(company) == 1
    return (
        company[0].iteration_us
        if alone
        else _round_us(tuple(sorted(company))) * COST_PERMILLE[len(company) - 1] // 1000
    )


def speed_permille(own: Stages, company: Sequence[Stages]) -> int:
    """The part of its speed alone that one of the company has, in thousandths."""
    return min(1000, max(1, 1000 * own.iteration_us // iteration_us(company)))


def efficiency_micro(company: Sequence[Stages]) -> int:
    """Interleaving efficiency: the part of their time in which the four resources are busy, in millionths."""
    busy = sum(one.loading_us + one.compute_us + one.network_us for one in company)
    return MICRO * busy // (SLOTS * iteration_us(company))


@lru_cache(maxsize=65_536)
def _round_us(company: tuple[Stages, ...]) -> int:
    """Of all ways to begin in different slots the one in which a round is shortest."""
    others = company[1:]
    return min(_length_us({0: company[0], **dict(zip(order, others, strict=True))}) for order in _orders(len(others)))


def _orders(others: int) -> list[tuple[int, ...]]:
    """Slots in which the others begin, where the first one begins in slot 0."""
    return list(permutations(range(1, SLOTS), others))


def _length_us(begin: dict[int, Stages]) -> int:
    """How long a round takes where each job begins in its slot: the longest chain of stages that follow each other.

    A job that begins in slot k reads in k and k + 1, computes in k + 2 and exchanges in k + 3. A chain goes round by
    single slots, as long as the longest stage there, and by pairs of slots in which somebody reads.
    """
    slot = [0] * SLOTS
    pair = [0] * SLOTS
    for k, stages in begin.items():
        pair[k] = stages.loading_us
        slot[(k + 2) % SLOTS] = max(slot[(k + 2) % SLOTS], stages.compute_us)
        slot[(k + 3) % SLOTS] = max(slot[(k + 3) % SLOTS], stages.network_us)
    one_pair = (pair[k] + slot[(k + 2) % SLOTS] + slot[(k + 3) % SLOTS] for k in range(SLOTS))
    return max(sum(slot), pair[0] + pair[2], pair[1] + pair[3], *one_pair)
