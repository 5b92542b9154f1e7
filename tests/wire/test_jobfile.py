"""Job files: every field checked, every wrong one told with its path (cases M01, M02, M04, M05, S04)."""

import re
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gangline_core.spec import Dependency, ServiceClass, Toleration, TopologyWish
from gangline_wire import jobfile_examples, jobfile_schema
from gangline_wire.jobfile import JOB_FIELDS, SINGLE_FIELDS, JobFileError, parse_job
from gangline_wire.jobfile_role import NAMED_ROLE_FIELDS
from gangline_wire.limits import LIMITS, most

PLAIN = {"command": ["true"]}


def job(**fields: Any) -> dict[str, Any]:
    return {**PLAIN, **fields}


def wrong(document: object) -> dict[str, str]:
    """Paths and messages of what is wrong."""
    with pytest.raises(JobFileError) as caught:
        parse_job(document)
    return {error.path: error.message for error in caught.value.errors}


def test_a_short_file_means_one_task_with_defaults() -> None:
    spec = parse_job(PLAIN)
    (role,) = spec.roles
    assert (role.name, role.count, role.min_count, role.max_count) == ("worker", 1, 1, 1)
    assert role.command == ("true",)
    assert (spec.name, spec.group, spec.user, spec.pool) == ("", "", "", "default")
    assert spec.service_class == ServiceClass.BURSTABLE


def test_a_number_that_no_job_has_is_said_to_be_that_one() -> None:
    assert wrong(job(after=[-1, 0, 1.5]))["after[0]"] == "must be a job's number, from 1 on, not -1"


def test_every_field_is_read() -> None:
    spec = parse_job(
        yaml.safe_load(
            """
            name: resnet
            group: research/vision
            user: ada
            pool: gpu-a
            level: high
            priority: -3
            service_class: guaranteed
            labels: {team: vision}
            attributes: {kind: training, parameters: 7000000000, lr: 0.1, mixed: true}
            topology: {required: rack, preferred: node}
            node_selector: {zone: a}
            tolerations: [dedicated, gpu=a100, {key: k, value: v}]
            time_limit: 1h30m
            estimate: 90m
            protected: 10m
            grace: 45
            stop_signal: SIGINT
            retries: 2
            preemptible: false
            after: [7, {job: 8, any_outcome: true}]
            not_before: "2026-03-29T02:30:00+02:00"
            hold: true
            tasks: 4
            min: 2
            max: 8
            sizes: [2, 4, 8]
            gpus: 2
            gpu_memory: 16Gi
            gpu_models: [H100, A100]
            cpus: 8
            memory: 64Gi
            devices: {rdma: 1}
            command: [python, train.py]
            env: {MODE: LIVE}
            image: "registry:5000/x:1"
            """
        )
    )
    (role,) = spec.roles
    assert (role.count, role.min_count, role.max_count, role.sizes) == (4, 2, 8, (2, 4, 8))
    resources = role.resources
    assert (resources.gpu_milli, resources.gpu_memory_mib, resources.gpu_models) == (2000, 16_384, ("H100", "A100"))
    assert (resources.cpu_milli, resources.memory_mib, resources.devices) == (8000, 65_536, {"rdma": 1})
    assert (role.command, role.environment, role.image) == (
        ("python", "train.py"),
        {"MODE": "LIVE"},
        "registry:5000/x:1",
    )
    assert spec.tolerations == (Toleration("dedicated"), Toleration("gpu", "a100"), Toleration("k", "v"))
    assert spec.after == (Dependency(7), Dependency(8, any_outcome=True))
    assert spec.topology == TopologyWish(required="rack", preferred="node")
    assert (spec.time_limit_s, spec.estimate_s, spec.protected_s, spec.grace_s) == (5400, 5400, 600, 45)
    assert spec.not_before_ms == 1_774_744_200_000
    assert spec.attributes == {"kind": "training", "parameters": 7_000_000_000, "lr": 0.1, "mixed": True}
    assert (spec.priority, spec.retries, spec.preemptible, spec.hold) == (-3, 2, False, True)


def test_roles_start_together_and_have_names() -> None:
    spec = parse_job(jobfile_examples.ROLES_EXAMPLE)
    assert [(role.name, role.count, role.min_count, role.max_count) for role in spec.roles] == [
        ("learner", 1, 1, 1),
        ("actor", 16, 8, 32),
    ]


@pytest.mark.parametrize("typo", ["gpu_memry", "gpuMemory", "gpu-memory"])
def test_an_unknown_field_is_refused_and_the_nearest_named(typo: str) -> None:
    assert 'did you mean "gpu_memory"?' in wrong(job(gpus=1, **{typo: "8000Mi"}))[typo]


def test_a_right_field_with_a_wrong_unit_is_refused() -> None:
    assert "gpu_memory" in wrong(job(gpu_memory="8000MB"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("gpus", value) for value in (-1, 1e30, float("nan"), float("inf"), True, None, "", " 2", "2 ", "0x2", "٢")),
        ("gpus", 1.5),
        ("gpus", 10**6),
        ("cpus", 10**9),
        ("memory", 16),
        ("memory", "128m"),
        ("memory", "1Zi"),
        ("memory", "9999999Pi"),
        ("gpu_memory", 17179869184),
        ("gpu_memory", 4294967297),
        ("time_limit", "1:30"),
        ("time_limit", 0),
        ("time_limit", "9999999999s"),
        ("grace", -5),
        ("priority", 2**31),
        ("priority", -(2**31) - 1),
        ("priority", 2**63),
        ("priority", "5"),
        ("priority", True),
        ("retries", 101),
        ("tasks", 0),
        ("tasks", 1.5),
        ("tasks", 10_001),
        ("hold", "yes"),
        ("hold", 1),
        ("stop_signal", "SIGKILL"),
        ("service_class", "gold"),
        ("group", "/research"),
        ("group", "research//vision"),
        ("group", "research/users"),
        ("user", "../ada"),
        ("pool", "a.b"),
        ("pool", ""),
        ("level", "a b"),
        ("after", 0),
        ("not_before", "2026-07-01T02:00:00"),
        ("not_before", "tomorrow"),
        ("labels", []),
        ("image", "a b"),
        ("image", "--privileged"),
        ("name", "a\nb"),
        ("name", "x" * 129),
        ("name", 7),
        ("name", " a"),
        ("topology", "rack"),
        ("sizes", [4, 2]),
        ("sizes", []),
        ("command", []),
        ("command", [""]),
        ("command", ["a", 1]),
        ("command", ["a\0b"]),
        ("env", {"A": 1}),
        ("env", {"A": "{{secret:worker.env.B}}"}),
        ("gpu_models", [""]),
        ("roles", []),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_the_path_of_its_field(field: str, value: object) -> None:
    document = job(**{field: value})
    if field == "roles":
        document = {field: value}
    paths = wrong(document)
    assert paths, "refused"
    assert all(re.fullmatch(rf"{field}(\[\d+\]|\.\w+)?", path) for path in paths), paths


def test_all_wrong_fields_are_told_at_once() -> None:
    paths = wrong({"gpus": -1, "memory": 16, "labels": {"a": 1}, "after": ["x"], "topology": {"need": "rack"}})
    assert set(paths) == {"gpus", "memory", "labels.a", "after[0]", "topology.need", "command"}


def test_a_wrong_field_inside_a_role_has_its_full_path() -> None:
    roles = [{"name": "a", **PLAIN}, {"name": "b", "memory": 3, "env": {"1A": "x"}, **PLAIN}]
    assert set(wrong({"roles": roles})) == {"roles[1].memory", "roles[1].env.1A"}


def test_roles_need_different_names() -> None:
    assert set(wrong({"roles": [{"name": "a", **PLAIN}, {"name": "a", **PLAIN}]})) == {"roles[1].name"}


def test_role_fields_beside_roles_are_refused() -> None:
    assert set(wrong({"roles": [{"name": "a", **PLAIN}], "gpus": 1})) == {"gpus"}


def test_a_size_outside_of_its_bounds_names_them() -> None:
    assert "3 to 4" in wrong(job(tasks=2, min=3, max=4))["tasks"]
    assert "3 to 4" in wrong(job(tasks=6, min=3, max=4))["tasks"]
    assert parse_job(job(tasks=3, min=3, max=4)).roles[0].count == 3


def test_tasks_of_all_roles_are_limited_together() -> None:
    roles = [{"name": name, "tasks": 6000, **PLAIN} for name in ("a", "b")]
    assert "12000" in wrong({"roles": roles})["roles"]


def test_a_command_with_a_wrong_word_is_not_called_missing() -> None:
    assert list(wrong({"command": [True]})) == ["command[0]"]
    assert list(wrong({"command": {"a": 1}})) == ["command"]
    assert list(wrong({"roles": [{"name": "a", "command": ["run", 7]}]})) == ["roles[0].command[1]"]


def test_one_text_as_command_needs_a_shell_asked_for() -> None:
    assert "shell: true" in wrong({"command": "python train.py"})["command"]
    assert parse_job({"command": "a && b", "shell": True}).roles[0].command == ("/bin/sh", "-c", "a && b")
    assert "shell" in wrong(job(shell=True))


@pytest.mark.parametrize("text", ["'; touch /tmp/x; '", "$(touch /tmp/x)", "--flag", "a b", 'a"b', "line\nbreak"])
def test_arguments_reach_the_program_exactly_as_written(text: str) -> None:
    spec = parse_job({"command": ["run", text], "env": {"A": text}})
    assert spec.roles[0].command == ("run", text)
    assert spec.roles[0].environment == {"A": text}


def test_an_environment_name_is_letters_digits_and_underscores() -> None:
    assert set(wrong(job(env={"A=1; touch /tmp/x #": "y", "1A": "y", "A-B": "y", "": "y"}))) == {
        "env.A=...", "env.1A", "env.A-B", 'env.""',
    }  # fmt: skip
    assert parse_job(job(env={"_a1": "y"})).roles[0].environment == {"_a1": "y"}


@pytest.mark.parametrize("name", ["训练", "a/b", "..", "A", "a", "trailing.", "🚀", "👩‍🔬 lab", "x" * 80])
def test_visible_names_are_kept_exactly(name: str) -> None:
    assert parse_job(job(name=name)).name == name


def test_two_spellings_of_one_name_are_one_name() -> None:
    assert parse_job(job(name="U\u0308n\u0131")).name == parse_job(job(name="\u00dcn\u0131")).name


@pytest.mark.parametrize("mark", ["\u200f", "\u202e", "\u2028", "\x00", "\x1b", "\ufeff", "\ud800"])
def test_invisible_characters_in_a_name_are_refused(mark: str) -> None:
    assert set(wrong(job(name=f"a{mark}b"))) == {"name"}


def test_declared_secrets_are_in_every_environment_and_listed() -> None:
    spec = parse_job(job(secrets={"HF": "abc"}, env={"OTHER": "x"}))
    assert spec.secrets == ("HF",)
    assert spec.roles[0].environment == {"HF": "abc", "OTHER": "x"}
    assert parse_job(job(secrets=["OTHER"], env={"OTHER": "x"})).secrets == ("OTHER",)
    assert set(wrong(job(secrets=["OTHER"]))) == {"secrets.OTHER"}
    (told,) = wrong(job(secrets=["hunter2-is-no-name!"])).values()
    assert "hunter2" not in told
    assert parse_job(job(secrets=[])).secrets == parse_job(job(secrets={})).secrets == ()


def test_a_task_that_asks_for_no_device_takes_a_cpu_unless_it_says_otherwise() -> None:
    def cpus(**fields: Any) -> int:
        return parse_job(job(**fields)).roles[0].resources.cpu_milli

    assert cpus() == cpus(memory="1Gi") == cpus(gpus=0) == 1000
    assert cpus(gpus=1) == cpus(gpus="500m") == cpus(gpu_memory="1Gi") == cpus(devices={"fpga": 1}) == 0
    assert (cpus(cpus=0), cpus(cpus="250m"), cpus(gpus=1, cpus=4)) == (0, 250, 4000)


def test_a_document_that_is_no_mapping_is_refused() -> None:
    for document in (None, [], "job", 3, True):
        assert set(wrong(document)) == {""}


def test_too_much_in_one_job_is_refused() -> None:
    assert "command" in wrong({"command": ["x"] * (most("command_args") + 1)})
    assert "command[1]" in wrong({"command": ["x", "y" * (most("arg_bytes") + 1)]})
    assert "command" in wrong({"command": ["x", *["y" * 60_000] * 8]})
    assert "env" in wrong(job(env={f"A{k}": "y" * 60_000 for k in range(5)}))
    assert "env" in wrong(job(env={f"A{k}": "" for k in range(most("env_entries") + 1)}))


def test_every_limit_has_a_meaning() -> None:
    assert all(limit.most > 0 and limit.counts for limit in LIMITS.values())


# --- the schema says what the parser does ---------------------------------------------------------------------


def test_the_schema_has_every_field_of_the_parser_and_no_other() -> None:
    assert set(jobfile_schema.JOB_FILE["properties"]) == set(SINGLE_FIELDS) | set(JOB_FIELDS)
    role = jobfile_schema.JOB_FILE["properties"]["roles"]["items"]
    assert set(role["properties"]) == set(NAMED_ROLE_FIELDS)


@pytest.mark.parametrize("example", jobfile_schema.JOB_FILE["examples"])
def test_the_examples_of_the_schema_are_valid_and_accepted(example: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(jobfile_schema.JOB_FILE)
    jsonschema.validate(example, jobfile_schema.JOB_FILE)
    parse_job(example)


@pytest.mark.parametrize("field", sorted(SINGLE_FIELDS))
def test_the_examples_of_each_field_are_accepted(field: str) -> None:
    schema = jobfile_schema.JOB_FILE["properties"][field]
    for example in schema.get("examples", []):
        jsonschema.validate(example, schema)
        extra: dict[str, object] = {"gpus": 1} if field.startswith("gpu_") or field == "exclude_models" else {}
        if isinstance(example, dict) and "slices" in example:
            extra["tasks"] = example["slices"]["tasks"]
        if field == "sizes":
            first = {"powers_of_two": 1}.get(str(example)) or (example if isinstance(example, list) else [3])[0]
            extra["tasks"] = first
        parse_job({**PLAIN, **extra, field: example})


def test_where_tasks_may_stand_is_read() -> None:
    topology = {"slices": {"tasks": 2, "level": "rack"}, "spread": {"level": "node", "most": 2}}
    spec = parse_job(
        job(tasks=4, gpus=1, exclude_models="T4", near_nic=True, exclude_nodes=["n2", "n1"], same_model=True)
        | {"topology": topology, "start_limit": "10m"}
    )
    assert spec.topology == TopologyWish(slice_tasks=2, slice_level="rack", spread_level="node", spread_most=2)
    assert (spec.exclude_nodes, spec.same_model, spec.start_limit_s) == (("n1", "n2"), True, 600)
    need = spec.roles[0].resources
    assert (need.exclude_models, need.near_nic) == (("T4",), True)
    assert parse_job(job(topology={"spread": "rack"})).topology == TopologyWish(spread_level="rack")


def test_a_mig_profile_counts_as_its_part_of_the_card() -> None:
    need = parse_job(job(mig="3g.20GB")).roles[0].resources
    assert (need.mig, need.gpu_milli, need.gpu_memory_mib, need.whole_gpus) == ("3g.20gb", 428, 0, 0)
    assert parse_job(job(mig="7g.80gb")).roles[0].resources.whole_gpus == 0


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"mig": "3g.21gb"}, "mig", "did you mean"),
        ({"mig": "3g.20gb", "gpus": 1}, "gpus", "MIG profile"),
        ({"exclude_models": ["T4"]}, "exclude_models", "no GPU is asked for"),
        ({"near_nic": True}, "near_nic", "no GPU is asked for"),
        ({"tasks": 3, "topology": {"slices": {"tasks": 2, "level": "rack"}}}, "topology.slices.tasks", "whole slices"),
        (
            {"tasks": 5, "max": 8, "topology": {"slices": {"tasks": 4, "level": "rack"}}},
            "topology.slices.tasks",
            "5 tasks",
        ),
        ({"topology": {"slices": {"tasks": 2}}}, "topology.slices.level", "missing"),
        ({"topology": {"spread": {"most": 2}}}, "topology.spread.level", "missing"),
        ({"topology": {"spread": {"level": "node", "most": 0}}}, "topology.spread.most", "from 1"),
        ({"start_limit": 0}, "start_limit", "leave the field out"),
    ],
)
def test_wishes_that_make_no_sense_are_told_with_their_path(fields: dict[str, Any], path: str, words: str) -> None:
    assert words in wrong(job(**fields))[path]


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted({*SINGLE_FIELDS, *JOB_FIELDS})), _VALUES, max_size=6))
def test_no_document_breaks_the_parser(document: dict[str, object]) -> None:
    try:
        spec = parse_job(document)
    except JobFileError as refused:
        messages = [one.message for one in refused.errors]
    else:
        messages = ["accepted"]
        msgspec.json.decode(msgspec.json.encode(spec), type=type(spec))
    assert messages
    assert all(messages)


@pytest.mark.parametrize(
    ("sizes", "least", "largest", "allowed"),
    [
        ("powers_of_two", 1, 10, (1, 2, 4, 8)),
        ("powers_of_two", 4, 32, (4, 8, 16, 32)),
        ({"multiples_of": 3}, 3, 12, (3, 6, 9, 12)),
        ([2, 5], 2, 5, (2, 5)),
    ],
)
def test_sizes_are_a_list_or_a_rule(sizes, least, largest, allowed):
    document = {"command": ["x"], "sizes": sizes, "tasks": least, "min": least, "max": allowed[-1]}
    assert parse_job(document).roles[0].sizes == allowed


@pytest.mark.parametrize("sizes", ["powers", {}, {"multiples_of": 0}, {"steps": 3}, [3, 1], 7])
def test_other_sizes_are_refused(sizes):
    with pytest.raises(JobFileError):
        parse_job({"command": ["x"], "sizes": sizes, "min": 1, "max": 8})


def test_what_a_resize_is_for_the_job_is_read_with_its_times():
    document = {"command": ["x"], "min": 1, "max": 4, "elastic": {"kind": "torchrun", "notice": "30s", "confirm": "5m"}}
    elastic = parse_job(document).elastic
    assert (elastic.kind, elastic.notice_s, elastic.confirm_s, elastic.start_s) == ("torchrun", 30, 300, 0)
    with pytest.raises(JobFileError, match="tasks, torchrun, signal, restart"):
        parse_job({**document, "elastic": {"kind": "magic"}})
    with pytest.raises(JobFileError) as wrong:
        parse_job({"command": ["x"], "elastic": {"min": 1, "zeal": 2}})
    told = {error.path: error.message for error in wrong.value.errors}
    assert "beside elastic" in told["elastic.min"]
    assert "known here are" in told["elastic.zeal"]


def test_the_folder_that_programs_start_in_is_a_field_of_its_own() -> None:
    job = parse_job({"command": ["python", "train.py"], "workdir": "/data/resnet", "attributes": {"kind": "cv"}})
    assert job.attributes == {"kind": "cv", "workdir": "/data/resnet"}, "agents look for it there"
    for fields, told in (
        ({"workdir": "resnet"}, "no whole path"),
        ({"workdir": "/a", "attributes": {"workdir": "/b"}}, "another folder"),
        ({"workdir": 3}, "must be text"),
    ):
        with pytest.raises(JobFileError) as refused:
            parse_job({"command": ["x"], **fields})
        [error] = refused.value.errors
        assert error.path == "workdir"
        assert told in error.message
