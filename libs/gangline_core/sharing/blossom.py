"""A matching of the largest weight in a general graph: Edmonds' primal-dual method with blossoms.

Edmonds, "Maximum matching and a polyhedron with 0,1-vertices" (1965); Galil, "Efficient algorithms for finding maximum
matching in graphs" (1986). All numbers are integers and every tie goes to the smaller vertex, so equal input gives
equal output on every machine. Slacks are kept in one matrix: a search makes of the order of n^2 looks at n^2 numbers.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

NONE = -1
FAR = np.iinfo(np.int64).max // 4
OUTER, INNER = 1, 2
"""Labels in an alternating tree: at an even or an odd distance from a vertex that is not matched."""
Link = tuple[int, int]


class Blossom(Struct):
    """An odd cycle that is treated as one vertex. The first child holds the base, the one vertex matched outside."""

    base: int
    children: list[int]
    links: list[Link]
    """Per child the edge to the next one, its own end first."""
    dual: int = 0


def matched(weights: Sequence[Sequence[int]]) -> list[int]:
    """Per vertex its partner, or -1, in a matching of the largest weight.

    `weights` is symmetric; where it is not positive there is no edge.
    """
    size = len(weights)
    search = _Search(np.array(weights, dtype=np.int64).reshape(size, size))
    while search.stage():
        search.dissolve()
    return search.mate


class _Search:
    """Matching and duals, better by one augmenting path with each stage."""

    def __init__(self, weights: NDArray[np.int64]) -> None:
        size = len(weights)
        self.size = size
        self.double = 2 * weights
        self.edge = (weights > 0) & ~np.eye(size, dtype=np.bool_)
        self.dual = np.full(size, int(weights.max(initial=0, where=self.edge)), dtype=np.int64)
        self.mate = [NONE] * size
        self.top = np.arange(size)
        """The outermost blossom that holds each vertex; a vertex that is in none is its own."""
        self.parent: dict[int, int] = {}
        self.blossoms: dict[int, Blossom] = {}
        self.next = size
        self.label: dict[int, int] = {}
        self.entry: dict[int, Link | None] = {}
        """The edge by which a labelled blossom hangs in its tree, the end nearer to the root first."""

    # --- one stage ----------------------------------------------------------------------------------------

    def stage(self) -> bool:
        """Grow trees from all unmatched vertices until two of them meet; False when no path makes it better."""
        self.label, self.entry = {}, {}
        for vertex in range(self.size):
            if self.mate[vertex] == NONE:
                self._hang(int(self.top[vertex]), OUTER, None)
        while True:
            labels = np.array([self.label.get(one, 0) for one in self.top.tolist()])
            outer, inner = labels == OUTER, labels == INNER
            if not outer.any():
                return False
            near, link = self._nearest(outer, inner)
            limit = int(self.dual[outer].min())
            thin = min(((self.blossoms[one].dual // 2, one) for one in self._inner_blossoms()), default=(FAR, NONE))
            step = min(near, limit, thin[0])
            self._shift(outer, inner, step)
            if step == limit:
                return False
            if step == thin[0]:
                self._open(thin[1])
            elif self.label.get(int(self.top[link[1]]), 0) != OUTER:
                self._grow(link)
            elif (root := self._meeting(link)) == NONE:
                self._augment(link)
                return True
            else:
                self._close(link, root)

    def _nearest(self, outer: NDArray[np.bool_], inner: NDArray[np.bool_]) -> tuple[int, Link]:
        """How far duals have to go until an edge from an outer vertex is tight, and which one it is."""
        leads = self.edge & outer[:, None] & ~inner[None, :] & (self.top[:, None] != self.top[None, :])
        slack = self.dual[:, None] + self.dual[None, :] - self.double
        far = np.where(leads, np.where(outer[None, :], slack // 2, slack), FAR)
        at = int(far.argmin())
        return int(far.flat[at]), divmod(at, self.size)

    def _shift(self, outer: NDArray[np.bool_], inner: NDArray[np.bool_], step: int) -> None:
        self.dual[outer] -= step
        self.dual[inner] += step
        for name, label in self.label.items():
            if name in self.blossoms:
                self.blossoms[name].dual += 2 * step if label == OUTER else -2 * step

    def _inner_blossoms(self) -> Iterator[int]:
        return (name for name, label in self.label.items() if label == INNER and name in self.blossoms)

    # --- trees --------------------------------------------------------------------------------------------

    def _hang(self, name: int, label: int, link: Link | None) -> None:
        self.label[name], self.entry[name] = label, link

    def _grow(self, link: Link) -> None:
        """The other end and whoever it is matched with come into the tree."""
        name = int(self.top[link[1]])
        self._hang(name, INNER, link)
        base = self._base(name)
        partner = self.mate[base]
        self._hang(int(self.top[partner]), OUTER, (base, partner))

    def _way_up(self, vertex: int) -> list[int]:
        """Outermost blossoms from the one that holds the vertex up to the root of its tree."""
        name = int(self.top[vertex])
        way = [name]
        while (link := self.entry[name]) is not None:
            name = int(self.top[link[0]])
            way.append(name)
        return way

    def _meeting(self, link: Link) -> int:
        """Where the ways up from both ends meet first; -1 when they are in different trees."""
        other = set(self._way_up(link[1]))
        return next((name for name in self._way_up(link[0]) if name in other), NONE)

    # --- blossoms -----------------------------------------------------------------------------------------

    def _close(self, link: Link, root: int) -> None:
        """The edge closes an odd cycle through `root`, which becomes one outer vertex."""
        left, right = (self._below(end, root) for end in link)
        children = [root, *reversed(left), *right]
        down = [self.entry[name] for name in reversed(left)]
        up = [self.entry[name] for name in right]
        links = [one for one in down if one is not None]
        links += [link, *((end, start) for start, end in (one for one in up if one is not None))]
        name, self.next = self.next, self.next + 1
        self.blossoms[name] = Blossom(base=self._base(root), children=children, links=links)
        for child in children:
            self.parent[child] = name
            self.label.pop(child, None)
        self._hang(name, OUTER, self.entry[root])
        self.top[self._vertices(name)] = name

    def _below(self, vertex: int, root: int) -> list[int]:
        way = self._way_up(vertex)
        return way[: way.index(root)]

    def _open(self, name: int) -> None:
        """An inner blossom without dual falls apart; the way through it stays in the tree, the rest leaves it."""
        blossom, link = self.blossoms[name], self.entry[name]
        assert link is not None  # an inner one hangs below an outer one
        first = blossom.children.index(self._child(name, link[1]))
        self._fall_apart(name)
        at, label = first, INNER
        self._hang(blossom.children[first], INNER, link)
        for following in self._to_base(blossom, first):
            label = OUTER if label == INNER else INNER
            self._hang(blossom.children[following], label, self._between(blossom, at, following))
            at = following

    def _fall_apart(self, name: int) -> None:
        self.label.pop(name, None)
        for child in self.blossoms.pop(name).children:
            self.parent.pop(child)
            self.top[self._vertices(child)] = child

    def dissolve(self) -> None:
        """After a stage: blossoms without dual hold nothing together any more."""
        while loose := [name for name in sorted(set(self.top.tolist())) if self._is_loose(name)]:
            for name in loose:
                self._fall_apart(name)

    def _is_loose(self, name: int) -> bool:
        return name in self.blossoms and self.blossoms[name].dual == 0

    def _vertices(self, name: int) -> list[int]:
        if name < self.size:
            return [name]
        return [vertex for child in self.blossoms[name].children for vertex in self._vertices(child)]

    def _base(self, name: int) -> int:
        return self.blossoms[name].base if name in self.blossoms else name

    def _child(self, name: int, vertex: int) -> int:
        """Which child of the blossom holds the vertex."""
        child = vertex
        while self.parent[child] != name:
            child = self.parent[child]
        return child

    def _to_base(self, blossom: Blossom, at: int) -> list[int]:
        """Places of the children from this one to the base's, the way round on which matched edges come first."""
        size = len(blossom.children)
        return [*range(at - 1, -1, -1)] if at % 2 == 0 else [one % size for one in range(at + 1, size + 1)]

    def _between(self, blossom: Blossom, at: int, other: int) -> Link:
        """The edge between two neighbours, the end in the first one first."""
        if other == (at + 1) % len(blossom.children):
            return blossom.links[at]
        end, start = blossom.links[other]
        return start, end

    # --- augmenting ---------------------------------------------------------------------------------------

    def _augment(self, link: Link) -> None:
        """Match both ends with each other; all along both ways up what was matched is not, and the reverse."""
        for start, other in (link, link[::-1]):
            vertex, partner = start, other
            while True:
                name = int(self.top[vertex])
                up = self.entry[name]
                self._set_base(name, vertex)
                self.mate[vertex] = partner
                if up is None:
                    break
                inner = int(self.top[up[0]])
                below = self.entry[inner]
                assert below is not None  # inner ones hang below outer ones
                self._set_base(inner, below[1])
                self.mate[below[1]] = below[0]
                vertex, partner = below

    def _set_base(self, name: int, vertex: int) -> None:
        """Another vertex of the blossom is the one that is matched outside."""
        if name not in self.blossoms:
            return
        blossom = self.blossoms[name]
        child = self._child(name, vertex)
        first = blossom.children.index(child)
        self._set_base(child, vertex)
        way = self._to_base(blossom, first)
        for at, other in zip(way[::2], way[1::2], strict=True):
            start, end = self._between(blossom, at, other)
            self._set_base(blossom.children[at], start)
            self._set_base(blossom.children[other], end)
            self.mate[start], self.mate[end] = end, start
        blossom.children = blossom.children[first:] + blossom.children[:first]
        blossom.links = blossom.links[first:] + blossom.links[:first]
        blossom.base = vertex
