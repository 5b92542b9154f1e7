"""Which platform the command talks to, and as whom: flags, then environment, then contexts file, then this machine."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gangline_client.errors import SettingsError
from gangline_wire.connection import ConnectionFileError, data_folder, make_private_folder, read_connection

URL_VARIABLE = "GANGLINE_URL"
TOKEN_VARIABLE = "GANGLINE_TOKEN"
CONTEXT_VARIABLE = "GANGLINE_CONTEXT"
CONFIG_VARIABLE = "GANGLINE_CONFIG"
GROUP_VARIABLE = "GANGLINE_GROUP"
POOL_VARIABLE = "GANGLINE_POOL"

HOW_TO_CONNECT = (
    "Start a platform on this machine with `gangline up`, or name one: --url and --token, "
    "GANGLINE_URL and GANGLINE_TOKEN, or `gangline context set NAME --url URL --token TOKEN`."
)


@dataclass(frozen=True)
class Context:
    """A named platform in the contexts file."""

    url: str = ""
    token: str = ""
    group: str = ""
    """Group of jobs that name none."""
    pool: str = ""
    """Pool of jobs that name none, and of `gangline queue`."""


@dataclass(frozen=True)
class ContextsFile:
    """The contexts file as read: every context, and which one is in use."""

    current: str = ""
    contexts: Mapping[str, Context] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """What a command needs to know before it can ask anything."""

    url: str
    token: str
    group: str = ""
    pool: str = ""
    source: str = ""
    """Where the address came from, for messages."""


def contexts_path(environ: Mapping[str, str]) -> Path:
    """Where the contexts file lies, whether it exists or not."""
    if chosen := environ.get(CONFIG_VARIABLE):
        return Path(chosen).expanduser()
    return Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "gangline" / "contexts.yaml"


def find_settings(environ: Mapping[str, str], *, url: str = "", token: str = "", context: str = "") -> Settings:
    """Address and token by precedence; the token of a context or of this machine is never sent to another address.

    Raises:
        SettingsError: nothing says where the platform is, or a file is broken.
    """
    chosen, named = _from_context(environ, context)
    nearest = Settings(
        url=url or environ.get(URL_VARIABLE, ""),
        token=token or environ.get(TOKEN_VARIABLE, ""),
        group=environ.get(GROUP_VARIABLE, "") or chosen.group,
        pool=environ.get(POOL_VARIABLE, "") or chosen.pool,
        source="--url" if url else URL_VARIABLE,
    )
    if nearest.url:
        return nearest
    if chosen.url:
        return replace(nearest, url=chosen.url, token=nearest.token or chosen.token, source=f"context {named}")
    return _from_this_machine(environ, nearest)


def read_contexts(path: Path) -> ContextsFile:
    """The contexts file; one that does not exist is empty.

    Raises:
        SettingsError: it cannot be read or understood.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ContextsFile()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    import yaml

    try:
        document = yaml.safe_load(text) or {}
        contexts = {str(name): _context(fields) for name, fields in document.get("contexts", {}).items()}
        return ContextsFile(current=str(document.get("current", "")), contexts=contexts)
    except (yaml.YAMLError, ValueError, AttributeError, TypeError, RecursionError) as error:
        step = "It holds `current: NAME` and `contexts: {NAME: {url, token, group, pool}}`."
        raise SettingsError(f"{path} is no contexts file: {error}", next_step=step) from error


def write_contexts(path: Path, file: ContextsFile) -> None:
    """Replace the contexts file in one step, readable by its owner only."""
    import yaml

    contexts = {name: {k: v for k, v in vars(each).items() if v} for name, each in sorted(file.contexts.items())}
    text = yaml.safe_dump({"current": file.current, "contexts": contexts}, sort_keys=False)
    if not path.parent.exists():
        make_private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IRUSR | stat.S_IWUSR)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    draft.replace(path)


def _context(fields: Any) -> Context:  # Any: whatever YAML gave; checked by the constructor
    return Context(**{str(name): str(value) for name, value in (fields or {}).items()})


def _from_context(environ: Mapping[str, str], asked: str) -> tuple[Context, str]:
    path = contexts_path(environ)
    file = read_contexts(path)
    name = asked or environ.get(CONTEXT_VARIABLE, "") or file.current
    if not name:
        return Context(), ""
    if name not in file.contexts:
        known = ", ".join(sorted(file.contexts)) or "none"
        raise SettingsError(f"there is no context {name} in {path}; known: {known}")
    return file.contexts[name], name


def _from_this_machine(environ: Mapping[str, str], nearest: Settings) -> Settings:
    folder = data_folder(environ)
    try:
        connection = read_connection(folder)
    except ConnectionFileError as error:
        raise SettingsError(str(error)) from error
    if connection is None:
        raise SettingsError("no platform is known", next_step=HOW_TO_CONNECT)
    return replace(
        nearest, url=connection.url, token=nearest.token or connection.token, source=f"the platform in {folder}"
    )
