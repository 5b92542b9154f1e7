"""A program that writes down that it was started, then works for a while: proof that nothing starts it twice."""

import os
import sys
import time


def main() -> int:
    """`demo_steady.py FILE SECONDS`: append one line to the file, sleep, say so."""
    file, seconds = sys.argv[1], float(sys.argv[2])
    line = f"{os.environ['GANGLINE_TASK_ID']} {os.getpid()}\n"
    # One write with O_APPEND: two processes cannot mix their lines.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)
    time.sleep(seconds)  # noqa: TID251 - a job's program, no part of the platform
    sys.stdout.write(f"worked for {seconds:g} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
