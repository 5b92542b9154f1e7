"""Job files as people write them: bare, or as the objects that a cluster takes."""

import io
from pathlib import Path

import pytest

from gangline_client.commands.documents import read_files
from gangline_client.errors import InputError, UsageError
from gangline_client.moments import moment_ms

OBJECT = """
apiVersion: gangline.dev/v1alpha1
kind: Job
metadata: {name: train}
spec: {gpus: 2, command: [python, train.py]}
"""


def test_a_job_object_of_a_cluster_is_submitted_as_the_same_job(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(OBJECT)
    (source,) = read_files([str(path)], standard_input=io.StringIO())
    assert source.document == {"name": "train", "gpus": 2, "command": ["python", "train.py"]}


def test_objects_of_other_kinds_are_no_jobs() -> None:
    with pytest.raises(InputError, match="not batch/v1 Job"):
        read_files(["-"], standard_input=io.StringIO("apiVersion: batch/v1\nkind: Job\nspec: {}\n"))


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("job.yaml", "command: [a]\ngpus: 1\ncommand: [b]\n", r"job.yaml:3: command stands twice, first in line 1"),
        ("job.yaml", "env:\n  A: 1\n  B: 2\n  A: 3\n", r"job.yaml:4: env.A stands twice, first in line 2"),
        ("job.yaml", "gpus: 1\n---\ngpus: 1\ngpus: 2\n", r"job.yaml:4: gpus stands twice, first in line 3"),
        ("job.json", '{"gpus": 1,\n\t"gpus": 2}', r"job.json: gpus stands twice"),
        ("job.json", '[{"env": {"A=secret": "1", "A=secret": "2"}}]', r"job.json: A=... stands twice"),
    ],
)
def test_a_name_that_stands_twice_in_a_job_file_is_refused_rather_than_lost(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        read_files([str(path)], standard_input=io.StringIO())


def test_what_an_alias_names_again_does_not_stand_twice(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("x: &a {gpus: 1}\n---\ncommand: [&b true, *b, *b]\nenv: &e {A: x}\nlabels: *e\n")
    sources = read_files([str(path)], standard_input=io.StringIO())
    assert sources[1].document == {"command": [True, True, True], "env": {"A": "x"}, "labels": {"A": "x"}}


@pytest.mark.parametrize(("text", "later_s"), [("now", 0), ("now+1h", 3600), ("+90s", 90)])
def test_moments_from_now_on_are_written_as_under_slurm_too(text: str, later_s: int) -> None:
    assert moment_ms(text, flag="--from", now_ms=5) == 5 + 1000 * later_s


@pytest.mark.parametrize("text", ["", "nowhere", "now-1h", "tomorrow"])
def test_what_is_no_moment_is_answered_with_what_is(text: str) -> None:
    with pytest.raises(UsageError, match='for two hours from now, or "now"'):
        moment_ms(text, flag="--from", now_ms=5)
