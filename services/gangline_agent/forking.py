"""Forks one supervisor for each order it reads, which takes a millisecond where a new interpreter takes thirty.

A process of its own (`python -m gangline_agent.forking FD`), small and without threads, so that forking it is cheap and
safe. It ends when the agent does; the supervisors stay. An order is its length in four bytes, then its bytes.
"""

import os
import select
import sys

from gangline_agent.supervise import supervise

LENGTH_BYTES = 4
POLL_MS = 1000


def main(fd: int) -> int:
    """Fork a supervisor for each order, until the agent is gone."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        if poll.poll(POLL_MS):
            order = read_order(fd)
            if order is None:
                return 0
            if os.fork() == 0:
                os.close(fd)
                be_supervisor(order)
        reap_supervisors()


def read_order(fd: int) -> bytes | None:
    """One whole order; None when the agent is gone."""
    head = read_whole(fd, LENGTH_BYTES)
    return None if head is None else read_whole(fd, int.from_bytes(head, "big"))


def read_whole(fd: int, size: int) -> bytes | None:
    """So many bytes; None when they end before."""
    data = b""
    while len(data) < size:
        part = os.read(fd, size - len(data))
        if not part:
            return None
        data += part
    return data


def reap_supervisors() -> None:
    """Take in supervisors that ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return
        except ChildProcessError:
            return


def be_supervisor(order: bytes) -> None:
    """The whole life of a forked supervisor; never returns."""
    code = 1
    try:
        os.setsid()
        supervise(order)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, this process must not go on forking
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
