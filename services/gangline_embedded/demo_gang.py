"""A program for a gang: its members meet over TCP with the variables they were given and add up one number each.

It needs nothing but Python, so that the demo can run it anywhere; a training script would hand the same variables to
torch.distributed. Rank 0 listens on MASTER_ADDR:MASTER_PORT, the others call it; each gives rank + 1 and gets the sum.
"""

import os
import socket
import sys
import time

MEET_S_MAX = 60.0
RETRY_S = 0.05


def main() -> int:
    """0 when every rank was there and the sum is right."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    total = _gather(address, size) if rank == 0 else _call(address, rank)
    expected = size * (size + 1) // 2
    task = os.environ.get("GANGLINE_TASK_ID", "?")
    sys.stdout.write(f"task {task}: rank {rank} of {size} met at {address[0]}:{address[1]}, sum {total}\n")
    return 0 if total == expected else 1


def _gather(address: tuple[str, int], size: int) -> int:
    """Hear every other rank once, then tell all the sum."""
    with socket.create_server(address) as server:
        server.settimeout(MEET_S_MAX)
        members: dict[int, socket.socket] = {}
        while len(members) < size - 1:
            member, _ = server.accept()
            member.settimeout(MEET_S_MAX)
            members[int(_line(member))] = member
        total = 1 + sum(rank + 1 for rank in members)
        for member in members.values():
            member.sendall(f"{total}\n".encode())
            member.close()
    return total


def _call(address: tuple[str, int], rank: int) -> int:
    """Call rank 0 until it listens; it may start later than we do."""
    attempts = int(MEET_S_MAX / RETRY_S)
    for attempt in range(attempts):
        try:
            with socket.create_connection(address, timeout=MEET_S_MAX) as master:
                master.sendall(f"{rank}\n".encode())
                return int(_line(master))
        except ConnectionRefusedError:
            if attempt == attempts - 1:
                raise
            time.sleep(RETRY_S)  # noqa: TID251 - a job's program, no part of the platform
    raise AssertionError("the loop returns or raises")


def _line(peer: socket.socket) -> str:
    with peer.makefile() as text:
        return text.readline()


if __name__ == "__main__":
    sys.exit(main())
