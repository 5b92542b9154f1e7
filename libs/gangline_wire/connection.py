"""Where the platform on this machine keeps its data, and how its command line finds it without being told.

Only the standard library: this is read before anything else, and by processes that load nothing else.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

DATA_VARIABLE = "GANGLINE_DATA"
"""Environment variable that moves the data folder."""
FILE_NAME = "connection.json"
FOLDER_MODE = 0o700
FILE_MODE = 0o600


class ConnectionFileError(Exception):
    """The connection file is there but cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Connection:
    """How to reach the platform of this data folder."""

    url: str
    """Address of the HTTP API, such as "http://127.0.0.1:8470"."""
    token: str
    """Bearer token of the machine's owner."""


def data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The data folder: $GANGLINE_DATA, else the user's data folder; not created here."""
    environ = os.environ if environ is None else environ
    if chosen := environ.get(DATA_VARIABLE):
        return Path(chosen).expanduser()
    user_data = environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(user_data).expanduser() / "gangline"


def make_private_folder(folder: Path) -> Path:
    """The folder, made with its parents where missing, open to its owner only."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    folder.chmod(FOLDER_MODE)
    return folder


def connection_file(folder: Path) -> Path:
    """Where the data folder keeps its connection."""
    return folder / FILE_NAME


def write_connection(folder: Path, connection: Connection) -> Path:
    """Leave the connection in the data folder, readable by its owner only, replaced in one step."""
    path = connection_file(make_private_folder(folder))
    draft = path.with_suffix(f".{os.getpid()}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(asdict(connection), indent=2) + "\n")
    draft.chmod(FILE_MODE)
    draft.replace(path)
    return path


def read_connection(folder: Path) -> Connection | None:
    """The connection of the data folder, or None when no platform has left one.

    Raises:
        ConnectionFileError: the file cannot be read or is no connection.
    """
    path = connection_file(folder)
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConnectionFileError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConnectionFileError(f"{path} is damaged; start the platform again or delete the file") from error
    return _parse(text, path)


def _parse(text: str, path: Path) -> Connection:
    try:
        fields = json.loads(text)
        url, token = fields["url"], fields["token"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConnectionFileError(f"{path} is damaged; start the platform again or delete the file") from error
    if not isinstance(url, str) or not isinstance(token, str):
        raise ConnectionFileError(f"{path} is damaged: url and token must be text")
    return Connection(url=url, token=token)
