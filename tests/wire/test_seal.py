"""Secrets: nowhere in what is written down, whole again in the job's own environment (case S05)."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline_core.spec import JobSpec
from gangline_wire.codec import encode
from gangline_wire.jobfile import parse_job
from gangline_wire.seal import SecretMissingError, seal, unseal, unseal_text
from gangline_wire.secret_signs import find_secrets, is_secret_name


def job(**fields: Any) -> JobSpec:
    return parse_job({"command": ["run"], **fields})


def test_the_case_of_the_leaking_token() -> None:
    spec = job(
        command=["run", "--header", "Authorization: Bearer abc", "prints s3cr3t-123 and DELIVERY"],
        env={"API_TOKEN": "s3cr3t-123", "MODE": "LIVE"},
    )
    sealed, values = seal(spec)
    written = encode(sealed).decode()
    assert "s3cr3t-123" not in written
    assert not re.search(r"\babc\b", written)
    assert "LIVE" in written
    assert "DELIVERY" in written
    assert set(values.values()) == {"s3cr3t-123", "abc"}
    assert set(sealed.secrets) == set(values)
    assert unseal(sealed, values).roles == spec.roles


@pytest.mark.parametrize(
    "command",
    [
        ["curl", "-H", "Authorization: Basic aGk6aG8="],
        ["curl", "-H", "X-Api-Key: zz9"],
        ["login", "--password", "zz9"],
        ["login", "--password=zz9"],
        ["login", "--api-key", "zz9"],
        ["docker", "run", "-e", "DB_PASSWORD=zz9", "x"],
        ["docker", "run", "--env=DB_PASSWORD=zz9", "x"],
        ["psql", "postgres://ada:zz9@db/x"],
        ["sh", "-c", "export TOKEN='zz9'; run"],
        ["sh", "-c", "run --api-key zz9 && run"],
        ["x", "A=B_TOKEN=zz9"],
        ["x", "hf_abcdefghijklmnopqrstuv"],
        ["x", "AIzaabcdefghijklmnopqrstuv"],
        ["x", "npm_abcdefghijklmnopqrstuv"],
        ["curl", "-u", "bob:zz9", "http://h"],
        ["curl", "--user", "bob:zz9", "http://h"],
        ["curl", "--user=bob:zz9", "http://h"],
        ["sh", "-c", "curl -s -u bob:zz9 http://h"],
        ["sh", "-c", "curl -u 'bob:zz9' http://h"],
        ["x", "--pass", "zz9"],
        ["x", "--pw", "zz9"],
        ["x", "--tokens", "zz9"],
        ["x", "--db-pwd=zz9"],
        ["mysql", "-h", "db", "-pzz9"],
        ["sh", "-c", "mysqldump -h db -u root -pzz9 x > y"],
        ["sshpass", "-p", "zz9", "ssh", "h"],
        ["/usr/bin/sshpass", "-pzz9", "ssh", "h"],
        ["sh", "-c", "sshpass -p zz9 ssh h"],
        ["docker", "login", "-u", "ada", "-p", "zz9", "registry.io"],
        ["sudo", "podman", "login", "-pzz9", "registry.io"],
        ["helm", "registry", "login", "registry.io", "-u", "ada", "-p", "zz9"],
        ["sh", "-c", "set -e\ndocker login registry.io -u ada -p zz9 && docker pull x"],
        ["sh", "-c", "oras login -p zz9 registry.io; skopeo copy x y"],
        ["sh", "-c", "podman login -pzz9"],
        ["sh", "-c", "crane auth login registry.io -u ada -p='zz9'"],
        ["sh", "-c", "echo zz9 | docker login -u ada --password-stdin registry.io"],
        ["sh", "-c", "echo -n 'zz9'|podman login --password-stdin"],
        ["sh", "-c", "printf '%s' \"zz9\" | docker login --password-stdin"],
        ["redis-cli", "-h", "db", "-a", "zz9", "ping"],
        ["sh", "-c", "redis-cli -h db -a zz9 ping"],
        ["aws", "configure", "set", "aws_secret_access_key", "zz9"],
        ["sh", "-c", "aws configure set aws_session_token zz9"],
        ["wandb", "login", "zz9"],
        ["sh", "-c", "wandb login zz9 && python train.py"],
        ["git", "clone", "https://abcdefghijklmnop@github.com/x"],
        ["git", "clone", "https://abcdefghijklmnop:x-oauth-basic@github.com/x"],
        ["curl", "https://blob/x?se=1&sig=zz9&sp=r"],
        ["curl", "https://hooks.slack.com/services/T00/B00/zz9zz9"],
        ["x", '{"token": "zz9"}'],
        ["x", "{'api_key' : 'zz9'}"],
        ["sh", "-c", 'curl -d "{\\"password\\": \\"zz9\\"}" h'],
        ["x", '{"pin":1234567}'],
        ["x", "AKIAABCDEFGHIJKLMNOP"],
        ["x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.abcdefgh"],
        ["x", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"],
    ],
)
def test_secrets_in_arguments_are_sealed(command: list[str]) -> None:
    spec = job(command=command)
    sealed, values = seal(spec)
    assert values
    assert not any("zz9" in argument for argument in sealed.roles[0].command)
    written = encode(sealed).decode()
    assert not [value for value in values.values() if value in written]
    assert unseal(sealed, values).roles == spec.roles


@pytest.mark.parametrize(
    "command",
    [
        ["python", "train.py", "--epochs", "3", "--max-tokens", "512", "--tokenizer", "bert", "--keyboard", "us"],
        ["echo", "the key to success: work", "a=b", "monkey=1", "https://host:8080/path"],
        ["--resume", "--level=high"],
        ["python", "-u", "train.py", "--pin-memory", "1", "--session-timeout", "5", "--private-network", "a"],
        ["git", "clone", "ssh://git@github.com/x", "--passes", "3", "--passthrough", "a", "--signal", "TERM"],
        ["wandb", "login", "--relogin"],
        ["mkdir", "-pv", "x", "--connection", "eth0", "--mapping", "a=b", "--design=1"],
        ["docker", "run", "--user", "1000", "-p", "80", "x"],
    ],
)
def test_ordinary_arguments_are_left_alone(command: list[str]) -> None:
    sealed, values = seal(job(command=command))
    assert list(sealed.roles[0].command) == command or "key to success" in command[1]
    assert not values or "key to success" in command[1]


SECRET_NAMES = [
    "API_TOKEN",
    "apiToken",
    "HF_TOKEN",
    "WANDB_API_KEY",
    "dbPassword",
    "AWS_SECRET_ACCESS_KEY",
    "SECRET",
    "HTTP_AUTHORIZATION",
    "X-Api-Key",
    "GITHUB_PAT",
    "hftoken",
    "DB_PASS",
    "MYSQL_PWD",
    "SSHPASS",
    "PGPASSWORD",
    "JWT",
    "SESSION_ID",
    "CREDS",
    "AZURE_STORAGE_CONNECTION_STRING",
    "SIGNING",
    "PRIVATE",
    "PIN",
    "NETRC",
    "KUBECONFIG_DATA",
    "SLACK_WEBHOOK_URL",
]
ORDINARY_NAMES = [
    "MODE",
    "PATH",
    "TOKENIZERS_PARALLELISM",
    "MAX_TOKENS",
    "KEYBOARD",
    "MONKEY",
    "PATTERN",
    "AUTHOR",
    "OMP_NUM_THREADS",
    "NCCL_DEBUG",
    "PWD",
    "OLDPWD",
    "PIN_MEMORY",
    "COMPASS",
    "SESSION_TIMEOUT",
    "PRIVATE_NETWORK",
    "KUBECONFIG",
    "DESIGN",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_secret_names_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ORDINARY_NAMES)
def test_ordinary_names_are_not_taken_for_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_a_declared_secret_is_sealed_whatever_it_is_called() -> None:
    sealed, values = seal(job(secrets={"COLOUR": "blue-7"}, command=["paint", "blue-7"]))
    assert "blue-7" not in encode(sealed).decode()
    assert set(values.values()) == {"blue-7"}


def test_a_short_value_is_not_looked_for_elsewhere() -> None:
    sealed, _ = seal(job(env={"PIN_TOKEN": "on"}, command=["connection", "on"]))
    assert sealed.roles[0].command == ("connection", "on")


@pytest.mark.parametrize(
    "piece",
    [
        "a=",
        "-eyJ",
        "TOKEN=",
        "://a:",
        "bearer ",
        "--token ",
        '="',
        '"a":',
        "-u a:",
        "mysql -",
        "sshpass -p",
        "login ",
        "login -p",
        "redis-cli ",
        "echo a|",
        "printf %s a | ",
        "sig=",
        "://aaaaaaaaaaaaa",
        '\\"a\\":',
        "key: ",
        "\u0301",
    ],
)
def test_a_hostile_text_is_looked_through_in_no_time(piece: str) -> None:
    sealed, values = seal(job(command=["run", "key " + piece * (60_000 // len(piece.encode()))]))
    assert unseal(sealed, values).roles[0].command[0] == "run"


def test_a_job_without_secrets_is_unchanged() -> None:
    spec = job(env={"MODE": "LIVE"})
    assert seal(spec) == (spec, {})


def test_a_missing_value_is_named_and_never_guessed() -> None:
    with pytest.raises(SecretMissingError, match=r"worker\.env\.A"):
        unseal_text("x {{secret:worker.env.A}}", {})


_TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
    st.sampled_from(["--token", "Bearer abc", "KEY=x", "hf_abcdefghijklmnop", "a=b", "s3cr3t-123", "TOKEN='a b'"]),
)


@given(
    st.lists(_TEXTS, max_size=6),
    st.dictionaries(st.sampled_from(["A", "API_TOKEN", "MODE", "DB_URL"]), _TEXTS, max_size=4),
)
def test_unsealing_gives_back_exactly_what_was_sealed(command: list[str], env: dict[str, str]) -> None:
    spec = job(command=["run", *command], env=env)
    sealed, values = seal(spec)
    assert unseal(sealed, values).roles == spec.roles
    written = encode(sealed.roles).decode()
    assert not [value for value in values.values() if len(value) >= 8 and value.isalnum() and value in written]


@given(st.text())
def test_found_secrets_are_in_order_and_apart(text: str) -> None:
    spans = find_secrets(text)
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
