"""Members of a job share shards over real sockets: each record once, whoever comes, leaves or is lost."""

import json
import socket
import threading
from pathlib import Path

import pytest

from gangline_client.shards import Keeper, Shards, ShardsError

RECORDS = {"a": 25, "b": 7}


def rank_0(tmp_path: Path, **fields) -> Shards:
    return Shards(RECORDS, per_shard=3, environment={}, journal=tmp_path / "shards", **fields)


def member(port: int, rank: int = 1) -> Shards:
    return Shards(RECORDS, per_shard=3, environment={"RANK": str(rank), "MASTER_PORT": str(port)})


def records(shards) -> list[tuple[str, int]]:
    return [(shard.name, record) for shard in shards for record in range(shard.start, shard.end)]


EVERYTHING = sorted((name, record) for name, count in RECORDS.items() for record in range(count))


def test_alone_a_member_gets_all_of_it(tmp_path: Path) -> None:
    with rank_0(tmp_path) as shards:
        assert sorted(records(shards)) == EVERYTHING


def test_members_share_every_record_once(tmp_path: Path) -> None:
    with rank_0(tmp_path) as first:
        done: list[tuple[str, int]] = []

        def work(rank: int) -> None:
            with member(first.port, rank) as shards:
                for shard in shards:
                    done.extend((shard.name, record) for record in range(shard.start, shard.end))

        others = [threading.Thread(target=work, args=(rank,)) for rank in (1, 2)]
        for other in others:
            other.start()
        done.extend(records(first))
        for other in others:
            other.join(30)
    assert sorted(done) == EVERYTHING


def test_what_a_lost_member_was_doing_comes_back(tmp_path: Path) -> None:
    with rank_0(tmp_path) as first:
        with socket.create_connection(("127.0.0.1", first.port)) as lost:
            lost.sendall(b'{"rank": 1}\n')
            taken = json.loads(lost.makefile().readline())["shard"]
        assert taken[0] == 0
        assert sorted(records(first)) == EVERYTHING


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b"[1]",
        b"null",
        b"[" * 60_000,
        b'{"done": [1]}',
        b'{"done": 10000}',
        b'{"failed": "x"}',
        b'{"rank": null}',
        b"\xff\xfe",
        b"9" * 5_000,
    ],
)
def test_who_says_something_else_is_hung_up_on_and_nobody_else_notices(
    tmp_path: Path, line: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """The port is open to whoever reaches the machine."""
    with rank_0(tmp_path) as first:
        with socket.create_connection(("127.0.0.1", first.port), timeout=90) as stranger:
            stranger.sendall(line + b"\n")
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(65_536):
                pass
        assert sorted(records(first)) == EVERYTHING
    assert "Traceback" not in capfd.readouterr().err


def test_a_member_that_leaves_its_loop_gives_its_shard_back(tmp_path: Path) -> None:
    with rank_0(tmp_path) as first:
        with member(first.port) as leaving:
            for _ in leaving:
                break
        assert sorted(records(first)) == EVERYTHING


def test_a_gang_that_starts_anew_goes_on_where_it_was(tmp_path: Path) -> None:
    done = []
    with rank_0(tmp_path) as shards:
        for shard in shards:
            if len(done) == 4:
                break
            done.append(shard.number)
    with (tmp_path / "shards").open("a") as journal:
        journal.write("9")  # cut off by a crash: no line yet, and no number that was done
    with rank_0(tmp_path) as shards:
        rest = [shard.number for shard in shards]
    assert sorted([*done, *rest]) == list(range(12))


def test_a_journal_of_other_data_is_refused(tmp_path: Path) -> None:
    rank_0(tmp_path).close()
    with pytest.raises(ShardsError, match="other data"):
        Keeper({"a": 1}, per_shard=3, journal=tmp_path / "shards")


def test_a_shard_that_can_never_be_done_ends_in_an_error_after_all_others_were(tmp_path: Path) -> None:
    done = set()

    def work(first: Shards) -> None:
        while True:
            for shard in first:
                if shard.number == 5:
                    break
                done.add(shard.number)

    with rank_0(tmp_path) as first, pytest.raises(ShardsError, match="1 shards could not be done"):
        work(first)
    assert done == set(range(12)) - {5}


def test_a_rank_0_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangline_client.shards.PATIENCE_S", 0.2)
    first = rank_0(tmp_path)
    port = first.port
    first.close()
    with pytest.raises(ShardsError, match="does not answer"), member(port) as shards:
        next(iter(shards))
