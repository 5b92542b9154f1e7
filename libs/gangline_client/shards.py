"""Shards of data for the members of an elastic job: each takes the next one, whoever leaves gives back what it had.

    from gangline_client.shards import Shards

    with Shards({"train": 1_000_000}, per_shard=1_000, journal="checkpoints/shards") as shards:
        for shard in shards:
            work(shard.name, shard.start, shard.end)

Rank 0 keeps the list (sizes.shards) at the gang's meeting point and works as well; the others ask it there. A
member whose connection ends is lost to the list, and what it was doing waits again. What is done stands in the journal
of rank 0, so a gang that starts anew goes on where it was. A shard counts as done when the next one is asked for; an
exception in the loop's body says that it could not be done. Only the standard library beside the list itself.
"""

import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from msgspec import Struct

from gangline_client.doors import rest, steady_s
from gangline_client.elastic import SAID_BYTES_MAX, Contract
from gangline_client.unreadable import UNREADABLE
from gangline_core.sizes.shards import Shard, ShardList, cut

PATIENCE_S = 60.0
"""A rank 0 that is not heard of for so long is gone, and so is the member that asks it."""
AGAIN_S = 0.2
"""Pause before the list is asked again when nothing waits, but something may come back."""
LINGER_S = 60.0
"""So long rank 0 waits at the end until all members have heard that nothing is left."""
CHECK_S = 30.0
"""How often workers are looked for that have had a shard for too long."""
LINE_BYTES_MAX = 65_536


class ShardsError(RuntimeError):
    """Shards were given up, or rank 0 is gone."""


class Given(Struct, frozen=True, omit_defaults=True):
    """What rank 0 answers."""

    shard: tuple[int, str, int, int] | None = None
    over: bool = False
    given_up: int = 0


class Keeper:
    """The list at rank 0, behind a lock, with its journal."""

    def __init__(self, records: Mapping[str, int], *, per_shard: int, journal: str | Path | None) -> None:
        """Takes up what the journal knows of.

        Raises:
            ShardsError: the journal is of other data, or of shards of another size.
        """
        self._lock = threading.Lock()
        self._journal = Path(journal) if journal is not None else None
        head = json.dumps({"records": dict(records), "per_shard": per_shard})
        done: list[int] = []
        if self._journal is not None:
            self._journal.parent.mkdir(parents=True, exist_ok=True)
            # What follows the last line's end was cut off by a crash: that shard is done once more.
            lines = self._journal.read_text().split("\n")[:-1] if self._journal.exists() else []
            if lines and lines[0] != head:
                raise ShardsError(f"{self._journal} is of other data or of shards of another size")
            done = [int(line) for line in lines[1:]]
            new = self._journal.with_suffix(".new")
            new.write_text("".join(f"{line}\n" for line in (head, *done)))
            new.replace(self._journal)
        self._list = ShardList(cut(records, per_shard=per_shard), done)
        self._checked_s = steady_s()
        self.told: set[int] = set()
        """Ranks that have heard that nothing is left."""

    def ask(self, worker: str, words: Mapping[str, Any]) -> Given:
        """What a worker did or could not do, and the next shard for it; `over` when there is nothing left at all."""
        with self._lock:
            now_s = steady_s()
            if (number := words.get("done")) is not None and self._list.finish(number, worker, now_s):
                self._write(number)
            if (number := words.get("failed")) is not None:
                self._list.fail(number, worker)
            if now_s - self._checked_s > CHECK_S:
                self._checked_s = now_s
                for late in self._list.overdue(now_s):
                    self._list.lose(late)
            if words.get("leaves"):
                return Given()
            shard = self._list.take(worker, now_s)
            if shard is not None:
                return Given(shard=(shard.number, shard.name, shard.start, shard.end))
            if self._list.is_over:
                self.told.add(int(words.get("rank", 0)))
            return Given(over=self._list.is_over, given_up=len(self._list.given_up))

    def lose(self, worker: str) -> None:
        """A worker is gone."""
        with self._lock:
            self._list.lose(worker)

    def _write(self, number: int) -> None:
        if self._journal is not None:
            with self._journal.open("a") as file:
                file.write(f"{number}\n")
                file.flush()
                os.fsync(file.fileno())


class _Server(socketserver.ThreadingTCPServer):
    """Answers each member in a thread of its own."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], keeper: Keeper) -> None:
        self.keeper = keeper
        super().__init__(address, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    """One member, from its first question to the end of its connection."""

    server: _Server

    def handle(self) -> None:
        worker = f"{self.client_address[0]}:{self.client_address[1]}"
        try:
            while line := self.rfile.readline(LINE_BYTES_MAX):
                self.wfile.write(msgspec.json.encode(self.server.keeper.ask(worker, json.loads(line))) + b"\n")
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            pass  # It is gone, or what it says is none of ours: either way it has nothing any more.
        finally:
            self.server.keeper.lose(worker)


def read_answer(line: bytes) -> Given:
    """What the line says.

    Raises:
        ValueError: rank 0 would not say that.
    """
    try:
        return msgspec.json.decode(line, type=Given)
    except UNREADABLE as error:
        raise ValueError(f"rank 0 says {line[:SAID_BYTES_MAX]!r}") from error


class Shards:
    """The shards that this member gets, one after the other."""

    def __init__(
        self,
        records: Mapping[str, int],
        *,
        per_shard: int,
        journal: str | Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`records` is how many records each data set has, equal for all members. Outside of a gang all are one's."""
        self._contract = Contract(environment)
        self._rank = int(environment.get("RANK", "0"))
        self._host = environment.get("MASTER_ADDR", "127.0.0.1")
        self._port = int(environment.get("MASTER_PORT", "0"))
        self._server: _Server | None = None
        self._line: socket.socket | None = None
        self._ask: Callable[[Mapping[str, Any]], Given]
        if self._rank == 0:
            keeper = Keeper(records, per_shard=per_shard, journal=journal)
            self._server = _Server(("", self._port), keeper)
            self._port = int(self._server.server_address[1])
            threading.Thread(target=self._server.serve_forever, name="shards", daemon=True).start()
            self._ask = lambda words: keeper.ask("0", words)
        else:
            self._ask = self._ask_far

    @property
    def port(self) -> int:
        """Where rank 0 is asked."""
        return self._port

    def __enter__(self) -> "Shards":
        """For `with`, which hangs up at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Shard]:
        """Shards until none is left.

        Raises:
            ShardsError: shards were given up, or rank 0 is gone.
        """
        words: dict[str, Any] = {}
        while True:
            answer = self._ask(words)
            words = {}
            if answer.shard is not None:
                shard = Shard(*answer.shard)
                words = {"failed": shard.number}
                try:
                    yield shard
                    words = {"done": shard.number}
                finally:
                    # The body left the loop early, or failed: the shard is somebody else's now.
                    if "failed" in words:
                        self._ask({**words, "leaves": True})
            elif answer.given_up and answer.over:
                raise ShardsError(f"{answer.given_up} shards could not be done")
            elif answer.over:
                return
            else:
                rest(AGAIN_S)

    def close(self) -> None:
        """Hang up. When nothing is left, rank 0 answers on until everybody who is there has heard so."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._server is not None:
            ends_s = steady_s() + LINGER_S
            while self._server.keeper.told and not self._all_told(self._server.keeper) and steady_s() < ends_s:
                rest(AGAIN_S)
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _all_told(self, keeper: Keeper) -> bool:
        """True when every member that is there has heard that nothing is left."""
        return {*self._contract.size().gathered, 0} <= keeper.told

    def _ask_far(self, words: Mapping[str, Any]) -> Given:
        ends_s = steady_s() + PATIENCE_S
        while True:
            try:
                return self._answer(words)
            except (OSError, ValueError) as error:
                # A new connection is a new worker to the list, which gave what the old one had to somebody else.
                self._line, words = None, {}
                if steady_s() > ends_s:
                    raise ShardsError(f"rank 0 at {self._host}:{self._port} does not answer") from error
                rest(AGAIN_S)

    def _answer(self, words: Mapping[str, Any]) -> Given:
        if self._line is None:
            self._line = socket.create_connection((self._host, self._port), timeout=PATIENCE_S)
        self._line.sendall(json.dumps({**words, "rank": self._rank}).encode() + b"\n")
        rest = b""
        while not rest.endswith(b"\n") and len(rest) <= LINE_BYTES_MAX:
            data = self._line.recv(LINE_BYTES_MAX)
            if not data:
                raise OSError("rank 0 hung up")
            rest += data
        return read_answer(rest)
