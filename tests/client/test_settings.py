"""Which platform is talked to: flags, environment, contexts, this machine; and contexts are kept safe."""

import stat
from pathlib import Path

import pytest
from tests.client.command_line import gangline

from gangline_client.errors import SettingsError
from gangline_client.settings import Context, ContextsFile, Settings, find_settings, read_contexts, write_contexts
from gangline_wire.connection import Connection, write_connection


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with contexts and a platform of its own."""
    contexts = {
        "lab": Context(url="http://lab", token="lab-token", group="research", pool="big"),
        "bare": Context(group="nlp"),
    }
    write_contexts(tmp_path / "contexts.yaml", ContextsFile(current="lab", contexts=contexts))
    write_connection(tmp_path / "data", Connection(url="http://here", token="here-token"))
    return {"GANGLINE_CONFIG": str(tmp_path / "contexts.yaml"), "GANGLINE_DATA": str(tmp_path / "data")}


def found(settings: Settings) -> tuple[str, str, str]:
    return settings.url, settings.token, settings.group


def test_the_nearest_source_wins(environ: dict[str, str]) -> None:
    named = {**environ, "GANGLINE_URL": "http://env", "GANGLINE_TOKEN": "env-token"}
    assert found(find_settings(named, url="http://flag", token="t")) == ("http://flag", "t", "research")
    assert found(find_settings(named)) == ("http://env", "env-token", "research")
    assert found(find_settings(environ)) == ("http://lab", "lab-token", "research")
    assert found(find_settings({**environ, "GANGLINE_GROUP": "g"}, context="bare")) == (
        "http://here",
        "here-token",
        "g",
    )
    assert found(find_settings({**environ, "GANGLINE_CONTEXT": "bare"})) == ("http://here", "here-token", "nlp")
    assert find_settings(environ).source == "context lab"


def test_a_kept_token_is_never_sent_to_another_address(environ: dict[str, str]) -> None:
    assert find_settings(environ, url="http://elsewhere").token == ""
    assert find_settings(environ, url="http://elsewhere", context="bare").token == ""


def test_what_is_not_there_is_told_with_what_to_do(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no context other"):
        find_settings(environ, context="other")
    nowhere = {"GANGLINE_CONFIG": str(tmp_path / "no"), "GANGLINE_DATA": str(tmp_path / "nothing")}
    with pytest.raises(SettingsError, match="no platform is known") as caught:
        find_settings(nowhere)
    assert "gangline up" in caught.value.next_step


@pytest.mark.parametrize("text", ["[", "contexts: 5", "contexts: {a: {nonsense: 1}}", "- a"])
def test_a_broken_contexts_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(SettingsError, match="is no contexts file"):
        read_contexts(tmp_path / "c")


async def test_contexts_are_made_chosen_and_forgotten_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "new" / "contexts.yaml"
    environ = {"GANGLINE_CONFIG": str(path)}

    async def context(*words: str) -> tuple[int, str]:
        result = await gangline("", "context", *words, environ=environ)
        return result.code, result.out

    assert (await context("set", "a", "--url", "http://a", "--token", "hush"))[0] == 0
    assert (await context("set", "b", "--url", "http://b", "--group", "g"))[0] == 0
    assert (await context("set", "a", "--pool", "p"))[0] == 0
    assert (await context("use", "b"))[0] == 0
    kept = read_contexts(path)
    assert kept.current == "b"
    assert kept.contexts["a"] == Context(url="http://a", token="hush", pool="p")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "hush" not in (await context())[1]
    assert (await context("remove", "b"))[0] == 0
    assert (await context("use", "b"))[0] == 1
    assert (await context("set", "c"))[0] == 2
    assert (await context("list", "-o", "name"))[1] == "a\n"
