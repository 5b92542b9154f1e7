"""A job's use of its GPUs and machines is shown to its owner, and what jobs like it used is advice for the next."""

from tests.make import node, spec
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f


async def test_the_owner_sees_how_busy_gpus_processes_and_slow_members_are(visitor: Visitor) -> None:
    world = visitor.setting.world
    job = world.submit_running(spec(group="t1", user="una", gpus=1, tasks=4), "n1")
    slow = world.tasks(job)[2].id
    world.tell(
        "telemetry",
        f.JobUsed(
            job=job,
            gpu_percent=12,
            window_s=60,
            memory_mib_max=900,
            tensor_percent=3,
            cpu_milli=2500,
            host_memory_mib=700,
        ),
        f.StragglersSeen(job=job, attempt=1, slow={slow: 180}),
    )
    shown = await visitor.ask("una", "GET", f"/v1/jobs/{job}")
    use = shown["use"]
    assert (use["gpu_percent"], use["tensor_percent"], use["cpu_milli"], use["memory_mib"]) == (12, 3, 2500, 700)
    assert use["advice"] == "Its 4 GPUs are 12 % busy; 1 would do the same work."
    assert shown["stragglers"] == {slow: 180}
    world.tell("telemetry", f.JobUsed(job=job, gpu_percent=-1, window_s=60, cpu_milli=100))
    use = (await visitor.ask("una", "GET", f"/v1/jobs/{job}"))["use"]
    assert use.get("gpu_percent") is None, "not measured is not zero"
    assert "advice" not in use


async def test_who_asks_for_what_jobs_like_it_never_used_is_told_before_and_while_it_waits(visitor: Visitor) -> None:
    world = visitor.setting.world
    for _ in range(2):
        job = world.submit_running(spec(group="t1", user="una", gpus=4, name="train"), "n1")
        world.tell("telemetry", f.JobUsed(job=job, gpu_percent=9, window_s=600))
        world.finish(job)
    asked = {"name": "train", "group": "t1", "gpus": 4, "command": ["true"]}
    dry = await visitor.ask("una", "POST", "/v1/jobs?dry_run=true", json=asked)
    sentence = "The last 2 runs like it kept 4 GPUs at most 9 % busy; 1 would do the same work."
    assert dry["foretold"]["advice"] == [sentence]
    waits = world.submit(spec(group="t1", user="una", gpus=4, name="train"))
    assert sentence in (await visitor.ask("una", "GET", f"/v1/jobs/{waits}/explain"))["notes"]


async def test_who_was_faster_on_one_model_is_told_where_it_goes_first(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.see(node("z1", gpus=8, model="H100"))
    like = spec(group="t1", user="una", gpus=1, name="train")
    for name, seconds in (("n1", 600), ("z1", 200)) * 3:
        job = world.submit_running(like, name)
        world.wait(seconds).finish(job)
    asked = {"name": "train", "group": "t1", "gpus": 1, "command": ["true"]}

    async def told(**more: object) -> list[str]:
        dry = await visitor.ask("una", "POST", "/v1/jobs?dry_run=true", json={**asked, **more})
        return list(dry["foretold"].get("advice", []))

    times = "Jobs like it took 3m20s on H100 (3 runs), 10m on A100 (3 runs)"
    assert await told() == [f"{times}; it goes to H100 first where there is room."]
    assert await told(gpu_models=["A100"]) == [f"{times}; the job names its models itself."]
    assert await told(gpus=2) == []
    speeds = {"speed_a100": 1, "speed_h100": 2.5}
    assert await told(attributes=speeds) == [
        "It says that it is fastest on H100; it goes to H100 first where there is room."
    ]
    world.state.kept.prices["h100"] = 2_000
    assert await told() == [f"{times}; they cost differently, so name the models that it may go to."]
    world.set_policy(model_affinity=False)
    assert await told() == [f"{times}; the pool's policy has model_affinity off."]
