"""The programs that the demo runs as real jobs do what they promise with nothing but the variables they are given."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import LONG_S, free_port

from gangline_embedded import demo_gang, demo_steady


def member(rank: int, size: int, port: int) -> "subprocess.Popen[str]":
    variables = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environ = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    return subprocess.Popen([sys.executable, demo_gang.__file__], env=environ, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("size", [1, 4])
def test_a_gang_meets_over_tcp_and_every_member_gets_the_sum(size: int) -> None:
    port = free_port()
    # The last rank first: whoever comes early must wait for rank 0.
    gang = [member(rank, size, port) for rank in reversed(range(size))]
    said = [process.communicate(timeout=LONG_S)[0] for process in gang]
    assert [process.returncode for process in gang] == [0] * size
    for rank, text in zip(reversed(range(size)), said, strict=True):
        assert f"rank {rank} of {size} met at 127.0.0.1:{port}, sum {size * (size + 1) // 2}" in text


def test_a_steady_program_writes_down_each_of_its_starts(tmp_path: Path) -> None:
    file = tmp_path / "starts"
    tasks = ["1-1-worker-0", "2-1-worker-0", "1-1-worker-0"]
    for task in tasks:
        environ = {**os.environ, "GANGLINE_TASK_ID": task}
        subprocess.run([sys.executable, demo_steady.__file__, str(file), "0"], env=environ, check=True)
    assert [line.split()[0] for line in file.read_text().splitlines()] == [
        "1-1-worker-0",
        "2-1-worker-0",
        "1-1-worker-0",
    ]
