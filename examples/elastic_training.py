"""A training that grows and shrinks while it runs, in plain Python: as torchrun does it, small enough to read.

Rank 0 stays through every change and hands out the shards of each step; members come, compute, and leave when they are
told. A step's gradients are added up in the order of the shards, so the result does not depend on how many members
there were. A checkpoint is written after every step; a run that starts anew goes on from the last one.

    python elastic_training.py CHECKPOINT_FOLDER STEPS [STEP:SIZE ...]

With STEP:SIZE the run waits before that step until it has this size, so that others can watch it change.
"""

import json
import os
import select
import socket
import sys
import time
from pathlib import Path

from gangline_client.elastic import Contract

SHARDS = 8
SAMPLES = 16
WIDTH = 6
RATE = 0.05
NAP_S = 0.05


def sample(number):
    """A row of the data: made from its number alone, so that every member has the same data."""
    state = number * 2654435761 % 2**32
    values = []
    for _ in range(WIDTH):
        state = (1103515245 * state + 12345) % 2**31
        values.append(state / 2**30 - 1)
    return values, sum((k + 1) * value for k, value in enumerate(values)) + 0.5


def shard(weights, step, number):
    """Loss and gradient of one shard of a step."""
    loss, gradient = 0.0, [0.0] * (WIDTH + 1)
    for k in range(SAMPLES):
        values, target = sample((step * SHARDS + number) * SAMPLES + k)
        fault = sum(w * v for w, v in zip(weights, values, strict=False)) + weights[WIDTH] - target
        loss += fault * fault
        for column, value in enumerate([*values, 1.0]):
            gradient[column] += 2 * fault * value
    return loss, gradient


class Line:
    """JSON lines over a socket."""

    def __init__(self, connection):
        self.connection = connection
        self.rest = b""

    def say(self, word):
        self.connection.sendall(json.dumps(word).encode() + b"\n")

    def hear(self):
        """The next word; None when the other side is gone."""
        while b"\n" not in self.rest:
            data = self.connection.recv(1 << 16)
            if not data:
                return None
            self.rest += data
        word, _, self.rest = self.rest.partition(b"\n")
        return json.loads(word)


class Leader:
    """Rank 0: the stable member at which the others meet."""

    def __init__(self, job, folder, address):
        self.job, self.folder = job, folder
        self.server = socket.create_server(address)
        self.server.setblocking(False)
        self.members = []
        self.step, self.weights = 0, [0.0] * (WIDTH + 1)
        if (folder / "checkpoint.json").exists():
            self.step, self.weights = json.loads((folder / "checkpoint.json").read_text())

    def meet(self):
        """Let in who knocks; say so when all are there."""
        try:
            while True:
                connection, _ = self.server.accept()
                connection.setblocking(True)
                self.members.append(Line(connection))
        except BlockingIOError:
            pass
        if self.job.changed() or self.job.size().stage == "confirming":
            size = self.job.size()
            if size.resize and size.size == 1 + len(self.members):
                self.job.confirm(size)

    def part(self):
        """Let go who hung up while there was nothing to do."""
        waiting = {member.connection: member for member in self.members}
        for connection in select.select(list(waiting), [], [], 0)[0]:
            if waiting[connection].hear() is None:
                self.members.remove(waiting[connection])

    def train(self, steps, pace):
        loss = 0.0
        while self.step < steps:
            self.meet()
            while self.step in pace and 1 + len(self.members) != pace[self.step]:
                time.sleep(NAP_S)
                self.part()
                self.meet()
            loss = self.one_step()
            self.job.report(step=self.step, percent=100 * self.step / steps, checkpoint_step=self.step)
        for member in self.members:
            member.say({"done": True})
        return loss

    def one_step(self):
        parts = {}
        asked = {}
        for k in range(SHARDS):
            who = k % (1 + len(self.members))
            asked.setdefault(who, []).append(k)
        busy = {who: self.members[who - 1] for who in asked if who}
        for who, member in busy.items():
            self.try_to(member.say, {"step": self.step, "weights": self.weights, "shards": asked[who]})
        mine = list(asked.get(0, []))
        for who, member in busy.items():
            answer = self.try_to(member.hear)
            if answer is None:
                # It left in the middle of the step: nothing is lost, its shards are computed here.
                self.members.remove(member)
                mine += asked[who]
            else:
                parts.update({int(k): part for k, part in answer.items()})
        parts.update({k: shard(self.weights, self.step, k) for k in mine})
        size = 1 + len(self.members)
        for column in range(WIDTH + 1):
            self.weights[column] -= RATE * sum(parts[k][1][column] for k in range(SHARDS)) / (SHARDS * SAMPLES)
        self.step += 1
        self.save(size)
        return sum(parts[k][0] for k in range(SHARDS)) / (SHARDS * SAMPLES)

    @staticmethod
    def try_to(act, *words):
        try:
            return act(*words)
        except OSError:
            return None

    def save(self, size):
        new = self.folder / "checkpoint.new"
        new.write_text(json.dumps([self.step, self.weights]))
        os.replace(new, self.folder / "checkpoint.json")
        with open(self.folder / "steps", "a") as steps:
            steps.write(f"{self.step} {size}\n")


def follow(job, address):
    """Every other rank: compute what is asked for, leave when told."""
    line = Line(knock(address))
    while True:
        if job.changed() and job.size().leaves:
            line.connection.close()
            job.safe()
            time.sleep(3600)  # The stop signal comes at once.
        if not line.rest and not select.select([line.connection], [], [], NAP_S)[0]:
            continue
        word = line.hear()
        if word is None or word.get("done"):
            return 0 if word else 1
        line.say({k: shard(word["weights"], word["step"], k) for k in word["shards"]})


def knock(address):
    for _ in range(600):
        try:
            return socket.create_connection(address)
        except OSError:
            time.sleep(NAP_S)
    raise SystemExit("rank 0 was not found")


def main():
    if len(sys.argv) < 3:
        raise SystemExit("usage: python elastic_training.py CHECKPOINT_FOLDER STEPS [STEP:SIZE ...]")
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    pace = {int(step): int(size) for step, size in (word.split(":") for word in sys.argv[3:])}
    address = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "0")))
    job = Contract()
    if int(os.environ.get("RANK", "0")):
        return follow(job, address)
    folder.mkdir(parents=True, exist_ok=True)
    print("final loss", repr(Leader(job, folder, address).train(steps, pace)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
