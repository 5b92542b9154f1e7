"""Who types what Slurm, kubectl, docker or SkyPilot would understand is told what it is here."""

import argparse
import re

import pytest

from gangline_client import of_others as o
from gangline_client.parser import build_parser
from gangline_client.verbs import HANDOVERS, VERBS


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command says when it leaves with 2."""
    from gangline_client.parser import parse

    with pytest.raises(SystemExit) as left:
        parse(words)
    assert left.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "here"),
    [
        (["--nodes", "2"], "--tasks N"),
        (["-N", "2"], "--tasks N"),
        (["--num-nodes", "2"], "--tasks N"),
        (["--gres=gpu:2"], "--gpus N"),
        (["-p", "gpu"], "--pool POOL"),
        (["--partition=gpu"], "--pool POOL"),
        (["-J", "train"], "--name NAME"),
        (["-A", "vision"], "--group PATH"),
        (["--dependency=afterok:3"], "--after afterok:JOB"),
        (["--cpus-per-task", "4"], "--cpus N"),
        (["-C", "a100"], "--node-selector"),
        (["-w", "n1"], "--node-selector"),
        (["--exclusive"], "gangline window"),
        (["--requeue"], "checkpoints"),
        (["--image", "python:3"], "image"),
        (["-o", "out.txt"], "gangline logs JOB > FILE"),
        (["--pty"], "docs/steering-jobs.md"),
        (["-it"], "docs/steering-jobs.md"),
        (["-i"], "docs/steering-jobs.md"),
    ],
)
def test_a_flag_of_srun_docker_or_skypilot_is_told_what_it_is_here(
    capsys: pytest.CaptureFixture[str], flag: list[str], here: str
) -> None:
    assert here in told(capsys, "run", *flag, "--", "true")


def test_what_nobody_knows_is_said_to_be_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--colour is not known here; see `gangline run --help`" in told(capsys, "run", "--colour", "red", "--", "x")


@pytest.mark.parametrize(
    ("verb", "here"),
    [
        ("requeue", "gangline rerun JOB"),
        ("unhold", "gangline release JOB"),
        ("uncordon", "gangline resume NODE"),
        ("cordon", "gangline drain NODE"),
        ("node", "gangline nodes"),
        ("attach", "docs/steering-jobs.md"),
        ("ssh", "docs/steering-jobs.md"),
        ("dashboard", "gangline up"),
    ],
)
def test_a_verb_of_another_tool_is_told_what_it_is_here(
    capsys: pytest.CaptureFixture[str], verb: str, here: str
) -> None:
    assert here in told(capsys, verb)


def test_whatever_is_named_instead_is_there() -> None:
    verbs = {each.name for each in (*VERBS, *HANDOVERS)}
    for word, here in o.VERBS_OF_OTHERS.items():
        assert word not in verbs
        assert set(re.findall(r"gangline ([a-z]+)", here)) <= verbs, here
    choices = next(
        action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)
    ).choices
    own = choices["run"]._option_string_actions
    for word, here in o.FLAGS_OF_OTHERS.items():
        assert f"--{word}" not in own or word == "output"
        assert set(re.findall(r"`(--[a-z-]+)", here)) <= set(own), here
