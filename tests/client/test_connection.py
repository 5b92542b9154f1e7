"""The local platform's connection file: found where it should be, and open to its owner only."""

import stat
from pathlib import Path

import pytest

from gangline_wire.connection import (
    Connection,
    ConnectionFileError,
    connection_file,
    data_folder,
    read_connection,
    write_connection,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_data_folder_is_the_named_one_then_the_users() -> None:
    assert data_folder({"GANGLINE_DATA": "/srv/g", "XDG_DATA_HOME": "/x"}) == Path("/srv/g")
    assert data_folder({"XDG_DATA_HOME": "/x"}) == Path("/x/gangline")
    assert data_folder({}) == Path.home() / ".local/share/gangline"


def test_what_is_written_is_read_back_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    connection = Connection(url="http://127.0.0.1:1", token="secret")
    path = write_connection(folder, connection)
    write_connection(folder, connection)
    assert read_connection(folder) == connection
    assert (mode(folder), mode(path)) == (0o700, 0o600)
    assert list(folder.iterdir()) == [path]


def test_no_platform_is_no_error(tmp_path: Path) -> None:
    assert read_connection(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1, "token": "x"}', '{"url": "http://x"}'])
def test_a_damaged_file_says_what_to_do(tmp_path: Path, text: str) -> None:
    connection_file(tmp_path).write_text(text)
    with pytest.raises(ConnectionFileError, match=r"connection\.json is damaged"):
        read_connection(tmp_path)
