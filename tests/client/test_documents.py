"""Job files as people write them: bare, or as the objects that a cluster takes."""

import io
from pathlib import Path

import pytest

from gangline_client.commands.documents import read_files
from gangline_client.errors import InputError

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
