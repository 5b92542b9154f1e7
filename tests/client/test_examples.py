"""The job files under examples/ are ones the platform admits as they stand."""

from pathlib import Path

import pytest
import yaml

from gangline_core.spec import JobSpec
from gangline_wire.jobfile import parse_job

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def jobs(path: Path) -> list[JobSpec]:
    return [parse_job(document) for document in yaml.safe_load_all(path.read_text())]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_a_good_job_file(path: Path) -> None:
    assert jobs(path)
    assert f"gangline submit examples/{path.name}" in path.read_text().replace("--wait ", "")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_names_no_group_that_a_fresh_platform_lacks(path: Path) -> None:
    assert {job.group for job in jobs(path)} == {""}


def test_the_examples_show_what_their_comments_say() -> None:
    by_name = {job.name: job for path in EXAMPLES for job in jobs(path)}
    assert by_name["train-resnet"].roles[0].resources.gpu_milli == 2000
    assert by_name["train-resnet"].secrets == ("WANDB_API_KEY",)
    gang = by_name["pretrain"]
    assert gang.roles[0].count * gang.roles[0].resources.whole_gpus == 64
    elastic = by_name["sweep-elastic"].roles[0]
    assert (elastic.count, elastic.max_count, elastic.is_elastic) == (2, 16, True)
    learner, actor = by_name["actor-learner"].roles
    assert (learner.count, actor.count, actor.resources.gpu_milli) == (1, 4, 250)
