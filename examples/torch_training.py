"""A training under torchrun that grows and shrinks while it runs: every member is one torchrun of one process.

The gradients of a step are added up in the order of its shards, whoever computed them, so the result does not depend on
how many members there were. Rank 0 writes a checkpoint after every step; workers that torchrun starts anew go on there.

    torchrun torch_training.py CHECKPOINT_FOLDER STEPS [STEP:SIZE ...]

With STEP:SIZE the run waits before that step until it has this size, so that others can watch it change. Gangline sets
torchrun's arguments (PET_*); all that the program has to know of Gangline is its size file and where to say "safe".
"""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

import torch
from torch import distributed

SHARDS = 8
SAMPLES = 16
WIDTH = 6
RATE = 0.05
NAP_S = 0.1


def shard(weights, step, number):
    """Loss and gradient of one shard of a step, in one vector; data are made from their number alone."""
    seed = torch.Generator().manual_seed(step * SHARDS + number)
    data = torch.rand(SAMPLES, WIDTH, generator=seed, dtype=torch.float64) * 2 - 1
    target = data @ torch.arange(1.0, WIDTH + 1, dtype=torch.float64) + 0.5
    weights = weights.clone().requires_grad_(True)
    loss = ((data @ weights[:WIDTH] + weights[WIDTH] - target) ** 2).sum()
    loss.backward()
    return torch.cat([loss.detach()[None], weights.grad])


def one_step(weights, step, rank, size):
    """Every member computes its shards; all know all of them afterwards."""
    parts = torch.zeros(SHARDS, WIDTH + 2, dtype=torch.float64)
    for number in range(rank, SHARDS, size):
        parts[number] = shard(weights, step, number)
    distributed.all_reduce(parts)
    total = parts.sum(dim=0) / (SHARDS * SAMPLES)
    return weights - RATE * total[1:], float(total[0])


class Platform:
    """What Gangline says and wants to hear; nothing outside of it."""

    def __init__(self):
        self.file, self.url = os.environ.get("GANGLINE_TASK_SIZE_FILE"), os.environ.get("GANGLINE_TASK_URL")
        self.confirmed = 0

    def said(self):
        return json.loads(Path(self.file).read_text()) if self.file else {}

    def say(self, what, **words):
        token = os.environ["GANGLINE_TASK_TOKEN"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = json.dumps(words).encode() if words else b""
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{what}", data, headers, method="POST"), timeout=10)

    def look(self, rank, size):
        """Leave when told, and say that the gang met at its new size."""
        said = self.said()
        if said.get("leaves"):
            self.say("safe")
            time.sleep(3600)  # The stop signal comes at once.
        if (
            rank == 0
            and said.get("stage") == "confirming"
            and said["size"] == size
            and self.confirmed != said["resize"]
        ):
            self.confirmed = said["resize"]
            self.say("confirm", resize=said["resize"], size=size)


def restored(folder):
    """Step and weights of the last checkpoint."""
    weights = torch.zeros(WIDTH + 1, dtype=torch.float64)
    if not (folder / "checkpoint.pt").exists():
        return 0, weights
    return torch.load(folder / "checkpoint.pt")


def train(folder, steps, pace):
    """Train to the end; the loss of the last step."""
    platform, loss = Platform(), 0.0
    rank, size = distributed.get_rank(), distributed.get_world_size()
    step, weights = restored(folder)
    while step < steps:
        platform.look(rank, size)
        if pace.get(step, size) != size:
            # When a member leaves or comes, torchrun starts all workers anew.
            distributed.all_reduce(torch.zeros(1))
            time.sleep(NAP_S)
            continue
        weights, loss = one_step(weights, step, rank, size)
        step += 1
        if rank == 0:
            torch.save((step, weights), folder / "checkpoint.new")
            os.replace(folder / "checkpoint.new", folder / "checkpoint.pt")
            with open(folder / "steps", "a") as lines:
                lines.write(f"{step} {size}\n")
    return loss


def main():
    if len(sys.argv) < 3:
        raise SystemExit("usage: torchrun torch_training.py CHECKPOINT_FOLDER STEPS [STEP:SIZE ...]")
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    pace = {int(step): int(size) for step, size in (word.split(":") for word in sys.argv[3:])}
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    loss = train(folder, steps, pace)
    if distributed.get_rank() == 0:
        print("final loss", repr(loss), flush=True)
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
