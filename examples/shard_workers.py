"""Independent workers that share the records of a data set: more or fewer of them while they work, none done twice.

    python shard_workers.py JOURNAL RECORDS

With the list at rank 0, a job of kind `torchrun` starts anew from the journal should rank 0 be lost; the others may go
at any time, without a word.
"""

import sys
import time

from gangline_client.shards import Shards

PER_SHARD = 10
NAP_S = 0.15


def main():
    if len(sys.argv) < 3:
        raise SystemExit("usage: python shard_workers.py JOURNAL RECORDS")
    journal, records = sys.argv[1], int(sys.argv[2])
    done = 0
    with Shards({"train": records}, per_shard=PER_SHARD, journal=journal) as shards:
        for shard in shards:
            time.sleep(NAP_S)
            done += shard.end - shard.start
    print("records here", done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
