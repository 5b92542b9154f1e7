"""Job files as pages and descriptions show them; tests read every one of them."""

from typing import Any

Example = dict[str, Any]

EXAMPLE: Example = {
    "name": "resnet-50",
    "group": "research/vision",
    "tasks": 4,
    "gpus": 2,
    "gpu_models": ["H100", "A100"],
    "cpus": 8,
    "memory": "64Gi",
    "command": ["python", "train.py", "--epochs", "90"],
    "workdir": "/data/resnet",
    "env": {"MODE": "train"},
    "time_limit": "12h",
    "topology": {"preferred": "rack"},
}
ROLES_EXAMPLE: Example = {
    "name": "rl",
    "roles": [
        {"name": "learner", "gpus": 8, "cpus": 32, "memory": "256Gi", "command": ["python", "learner.py"]},
        {
            "name": "actor",
            "tasks": 16,
            "min": 8,
            "max": 32,
            "cpus": 4,
            "memory": "8Gi",
            "command": ["python", "actor.py"],
        },
    ],
}

CHAIN_EXAMPLE: list[Example] = [
    {"name": "prepare", "cpus": 16, "command": ["python", "prepare.py"]},
    {"name": "train", "gpus": 8, "command": ["python", "train.py"], "after": "prepare"},
    {"name": "clean", "command": ["rm", "-r", "/scratch/run"], "after": ["afterany:train"]},
]
"""Jobs of one file, each after the one before it."""
