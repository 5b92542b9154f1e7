"""Who shares GPUs with whom where jobs interleave their stages: Muri (SIGCOMM 2022), section 4.2, algorithm 1.

Jobs come in the order of their priority. As many are chosen as would fit four to a place; if they need more GPUs than
there are, jobs of the same shape are put together in rounds, two by two, by a matching of the largest weight, where the
weight is the interleaving efficiency of the company that comes of it. A round makes the companies that waste least
first, and no more than are needed. Who is together already stays so where that is as good. Of more than
`MATCHED_MAX` of one shape those next to each other in the order are matched, so that a decision takes no minutes.
"""

from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct

from gangline_core.ids import JobId
from gangline_core.sharing.matching import MATCHED_MAX, best_pairs
from gangline_core.sharing.stages import MICRO, SLOTS, Stages, efficiency_micro


class Sharer(Struct, frozen=True):
    """A job that wants GPUs, and what decides with whom it may share them."""

    job: JobId
    gpus: int
    shape: Hashable
    """Only jobs of one shape can stand on the same GPUs."""
    stages: Stages | None
    """None for one that shares with nobody."""
    memory_mib: int = 0
    """What it takes of the memory of each of its GPUs."""
    place: int = 0
    """Who shares GPUs now has the same number; 0 of one that does not run."""


class Company(Struct, frozen=True):
    """Jobs that share their GPUs, by priority."""

    members: tuple[Sharer, ...]

    @property
    def gpus(self) -> int:
        """GPUs that all of them together need."""
        return self.members[0].gpus

    @property
    def kind(self) -> tuple[Stages, ...]:
        """What its efficiency depends on."""
        return tuple(sorted(one.stages for one in self.members if one.stages is not None))

    def beside(self, other: "Company") -> "Company":
        """Both together."""
        return Company(tuple(sorted((*self.members, *other.members), key=lambda one: one.job)))


def companies(jobs: Sequence[Sharer], *, gpus: int, card_mib: int, most: int = SLOTS) -> list[tuple[JobId, ...]]:
    """Companies of these jobs, given by priority, that need no more than so many GPUs if that can be; by priority."""
    place = {one.job: number for number, one in enumerate(jobs)}
    made = [Company((one,)) for one in chosen(jobs, gpus=gpus, most=most)]
    for _ in range(most):
        needed = sum(one.gpus for one in made) - gpus
        if needed <= 0:
            break
        mergers = sorted(_mergers(made, card_mib=card_mib, most=most), key=_wasted)
        if not mergers:
            break
        gone: set[JobId] = set()
        joined: list[Company] = []
        for first, second in mergers:
            if needed > 0:
                needed -= first.gpus
                joined.append(first.beside(second))
                gone.update(one.job for one in joined[-1].members)
        made = [one for one in made if one.members[0].job not in gone] + joined
    found = [tuple(sorted((one.job for one in company.members), key=place.__getitem__)) for company in made]
    return sorted(found, key=lambda company: place[company[0]])


def chosen(jobs: Sequence[Sharer], *, gpus: int, most: int) -> list[Sharer]:
    """The first jobs by priority that would fit if of each shape always so many shared the same GPUs."""
    by_shape: dict[Hashable, list[Sharer]] = {}
    for one in jobs:
        by_shape.setdefault(one.shape, []).append(one)
    taken: set[JobId] = set()
    reach = dict.fromkeys(by_shape, 0)
    for one in jobs:
        if one.job in taken or one.gpus > gpus:
            continue
        gpus -= one.gpus
        if one.stages is None:
            taken.add(one.job)
            continue
        like = by_shape[one.shape]
        until = reach[one.shape]
        room = most
        while until < len(like) and room:
            room -= like[until].stages is not None
            taken.update([like[until].job] if like[until].stages is not None else [])
            until += 1
        reach[one.shape] = until
    return [one for one in jobs if one.job in taken]


def _wasted(merger: tuple[Company, Company]) -> tuple[int, JobId]:
    """What the company would leave idle of its GPUs' time, then a name for the tie."""
    company = merger[0].beside(merger[1])
    return (MICRO - efficiency_micro(company.kind)) * company.gpus, company.members[0].job


def _mergers(made: Sequence[Company], *, card_mib: int, most: int) -> Iterator[tuple[Company, Company]]:
    """Shape by shape, pairs of companies that make a matching of the largest weight."""
    by_shape: dict[Hashable, list[Company]] = {}
    for one in made:
        if one.members[0].stages is not None:
            by_shape.setdefault(one.members[0].shape, []).append(one)
    for alike in by_shape.values():
        # Of very many those of one part of the order only: what a matching costs grows with the third power at least.
        for begin in range(0, len(alike), MATCHED_MAX):
            yield from _matched(alike[begin : begin + MATCHED_MAX], card_mib=card_mib, most=most)


def _matched(alike: Sequence[Company], *, card_mib: int, most: int) -> Iterator[tuple[Company, Company]]:
    kinds: dict[tuple[tuple[Stages, ...], int], list[Company]] = {}
    for one in alike:
        kinds.setdefault((one.kind, sum(member.memory_mib for member in one.members)), []).append(one)
    names = sorted(kinds)
    weights = {
        (a, b): efficiency_micro((*first, *second))
        for a, (first, first_mib) in enumerate(names)
        for b, (second, second_mib) in enumerate(names[a:], start=a)
        if len(first) + len(second) <= most and first_mib + second_mib <= card_mib
    }
    left = [list(kinds[name]) for name in names]
    for (a, b), count in sorted(best_pairs([len(one) for one in left], weights).items()):
        yield from _paired(left[a], left[b], count)


def _paired(first: list[Company], second: list[Company], count: int) -> Iterator[tuple[Company, Company]]:
    """So many pairs out of these two lists, which may be one: who shares GPUs now first, then by priority."""
    together = [(one, other) for one in first for other in second if one is not other and _place(one) == _place(other)]
    for one, other in together:
        if count and _place(one) and one in first and other in second:
            first.remove(one)
            second.remove(other)
            count -= 1
            yield one, other
    for _ in range(count):
        yield first.pop(0), second.pop(0)


def _place(company: Company) -> int:
    """Where all of them share GPUs now; 0 where they do not."""
    places = {one.place for one in company.members}
    return places.pop() if len(places) == 1 else 0
