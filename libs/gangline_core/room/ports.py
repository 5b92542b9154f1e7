"""Which ports gangs meet on: per address the ports that live gangs use, and the lowest one that is free."""

from collections.abc import Iterable
from heapq import heappop, heappush

FIRST_PORT = 29_500
LAST_PORT = 65_535
FOREIGN_MAX = 256
"""Ports of one address that are left alone because something else listened there; the latest are remembered."""


class Ports:
    """Ports in use, by address; the lowest free one is found without a search."""

    def __init__(self, foreign: dict[str, tuple[int, ...]] | None = None) -> None:
        """No gang meets anywhere; on the foreign ports, by address, something else was found listening."""
        self._books: dict[str, _Book] = {}
        self._foreign = {} if foreign is None else foreign
        for address, ports in self._foreign.items():
            for port in ports:
                self.take(f"{address}:{port}")

    def take(self, endpoint: str) -> None:
        """A gang meets on this "address:port"."""
        address, port = _split(endpoint)
        if port >= FIRST_PORT:
            self._books.setdefault(address, _Book()).take(port)

    def give(self, endpoint: str) -> None:
        """A gang no longer meets there."""
        address, port = _split(endpoint)
        if port >= FIRST_PORT:
            self._books[address].give(port)

    def leave_alone(self, endpoint: str, ports: Iterable[int]) -> None:
        """Something listens on these ports of the endpoint's address: gangs meet elsewhere.

        On its own one it is no gang's; on the others it may be a gang that meets there, and they are free after it.
        """
        address, own = _split(endpoint)
        known, book = self._foreign.get(address, ()), self._books.get(address)
        gangs = book.used.keys() - {own} if book is not None else ()
        usable = (port for port in dict.fromkeys(ports) if FIRST_PORT <= port <= LAST_PORT)
        new = [port for port in usable if port not in known and port not in gangs]
        for port in new:
            self.take(f"{address}:{port}")
        left = (*known, *new)
        for port in left[:-FOREIGN_MAX]:
            self.give(f"{address}:{port}")
        if new:
            self._foreign[address] = left[-FOREIGN_MAX:]

    def lowest_free(self, address: str) -> int:
        """The lowest port that no gang meets on at this address."""
        book = self._books.get(address)
        return book.lowest() if book is not None else FIRST_PORT

    def overlay(self) -> "PortsToGive":
        """The same as a scratch book for one decision."""
        return PortsToGive(self)

    def is_taken(self, address: str, port: int) -> bool:
        """True when a live gang meets on this port though another one is free."""
        book = self._books.get(address)
        return book is not None and port in book.used and book.lowest() <= LAST_PORT

    def copy_of(self, address: str) -> "_Book":
        """A book of one address that may be changed freely."""
        book = self._books.get(address)
        if book is None:
            return _Book()
        book.lowest()  # It leaves out what was taken since, so that no copy has to.
        return book.copy()


class PortsToGive:
    """Ports as one decision sees them: those in use and those it has given out itself."""

    def __init__(self, ports: Ports) -> None:
        """A decision that has given out nothing yet."""
        self._ports = ports
        self._books: dict[str, _Book] = {}
        self._number, self._of = 0, 1

    def take_turns(self, number: int, of: int) -> None:
        """Give out every `of`-th port only, the `number`-th of them, since others give out the rest meanwhile."""
        self._number, self._of = number, of

    def next(self, address: str) -> int:
        """The lowest free port of this address, given out from now on; the first one again when none is free."""
        book = self._books.get(address)
        if book is None:
            book = self._books[address] = self._ports.copy_of(address)
        while True:
            port = book.lowest()
            if port > LAST_PORT:
                return FIRST_PORT
            book.take(port)
            if (port - FIRST_PORT) % self._of == self._number:
                return port


class _Book:
    """Ports of one address: how many gangs use each, and a heap that holds every free one below `fresh`."""

    def __init__(self) -> None:
        self.used: dict[int, int] = {}
        self.heap: list[int] = []
        """May still hold ports that were taken since; each port stands in it at most once."""
        self.in_heap: set[int] = set()
        self.fresh = FIRST_PORT
        """No port from here on was ever used."""

    def take(self, port: int) -> None:
        while self.fresh <= port:
            self._offer(self.fresh)
            self.fresh += 1
        self.used[port] = self.used.get(port, 0) + 1

    def give(self, port: int) -> None:
        self.used[port] -= 1
        if not self.used[port]:
            del self.used[port]
            self._offer(port)

    def lowest(self) -> int:
        while self.heap and self.heap[0] in self.used:
            self.in_heap.discard(heappop(self.heap))
        return self.heap[0] if self.heap else self.fresh

    def copy(self) -> "_Book":
        twin = _Book()
        twin.used, twin.heap, twin.in_heap, twin.fresh = dict(self.used), list(self.heap), set(self.in_heap), self.fresh
        return twin

    def _offer(self, port: int) -> None:
        if port not in self.in_heap:
            self.in_heap.add(port)
            heappush(self.heap, port)


def _split(endpoint: str) -> tuple[str, int]:
    address, _, port = endpoint.rpartition(":")
    return address, int(port) if port.isdigit() else 0
