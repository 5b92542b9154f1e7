"""Which GPUs of which node a job of the Pollux bench has: changed jobs fit into what the others leave, or move them."""

from collections.abc import Mapping


class Places:
    """GPUs by node of every job that runs."""

    def __init__(self, nodes: int, per_node: int) -> None:
        """An empty cluster."""
        self.per_node = per_node
        self.free = [per_node] * nodes
        self.held: dict[int, dict[int, int]] = {}
        self.moved: set[int] = set()
        """Jobs that have other places since the last `arrange`, though perhaps as many of the same shape."""

    def give(self, job: int) -> None:
        """The job is over."""
        for node, count in self.held.pop(job, {}).items():
            self.free[node] += count

    def arrange(self, wanted: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
        """Give every job so many GPUs, moving as few others as possible; GPUs per node of each."""
        self.moved = set()
        for job, size in wanted.items():
            if job in self.held and sum(self.held[job].values()) != size:
                self.give(job)
                self.moved.add(job)
        missing = sorted(
            (job for job, size in wanted.items() if size and job not in self.held), key=lambda j: (-wanted[j], j)
        )
        for job in missing:
            self._seat(job, wanted[job], wanted)
        return {job: tuple(sorted(self.held.get(job, {}).values(), reverse=True)) for job in wanted}

    def _seat(self, job: int, size: int, wanted: Mapping[int, int]) -> None:
        found = self._find(size)
        while found is None:
            # Free GPUs are scattered: the smallest job on the emptiest node moves to make them one piece.
            node = max(
                (n for n in range(len(self.free)) if 0 < self.free[n] < self.per_node), key=lambda n: (self.free[n], -n)
            )
            others = [other for other, own in self.held.items() if node in own and sum(own.values()) < max(size, 2)]
            if not others:
                self._scatter(job, size)
                return
            other = min(others, key=lambda o: (sum(self.held[o].values()), o))
            self.give(other)
            found = self._find(size)
            if found is not None:
                self._take(job, found)
                self._seat(other, wanted[other], wanted)
                self.moved.add(other)
                return
            again = self._find(wanted[other], without=node)
            if again is None:
                self._take(other, self._find(wanted[other]) or {})
                self._scatter(job, size)
                return
            self._take(other, again)
            self.moved.add(other)
            found = self._find(size)
        self._take(job, found)

    def _take(self, job: int, own: dict[int, int]) -> None:
        self.held[job] = own
        self.moved.add(job)
        for node, count in own.items():
            self.free[node] -= count

    def _find(self, size: int, without: int = -1) -> dict[int, int] | None:
        """The tightest node that holds all, or whole nodes and one tight rest."""
        if size <= self.per_node:
            able = [n for n, free in enumerate(self.free) if free >= size and n != without]
            return {min(able, key=lambda n: (self.free[n], n)): size} if able else None
        whole = [n for n, free in enumerate(self.free) if free == self.per_node and n != without]
        count, rest = divmod(size, self.per_node)
        if len(whole) < count:
            return None
        own = dict.fromkeys(whole[:count], self.per_node)
        if rest:
            able = [n for n, free in enumerate(self.free) if free >= rest and n not in own and n != without]
            if not able:
                return None
            own[min(able, key=lambda n: (self.free[n], n))] = rest
        return own

    def _scatter(self, job: int, size: int) -> None:
        """Whatever is free, the emptiest nodes first."""
        own: dict[int, int] = {}
        for node in sorted(range(len(self.free)), key=lambda n: (-self.free[n], n)):
            count = min(self.free[node], size - sum(own.values()))
            if count:
                own[node] = count
        self._take(job, own)
