"""The web console: files that a browser loads without a token, since they hold nothing; the pages then ask the API."""

from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from gangline_gateway.call import Answer, Call
from gangline_gateway.problems import not_found

FOLDER = Path(__file__).parent / "console"
START = "index.html"
MEDIA_TYPES = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
"""What is served at all, by the end of its name."""
CLOSED = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The pages load and ask nothing but this gateway, and no other page shows them in a frame."""


class File(Struct, frozen=True):
    """One file, read once."""

    body: bytes
    media_type: str
    etag: str


def _read() -> dict[str, File]:
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        media_type = MEDIA_TYPES.get(path.suffix)
        if media_type is not None:
            body = path.read_bytes()
            etag = f'"{sha256(body).hexdigest()[:16]}"'
            found[path.relative_to(FOLDER).as_posix()] = File(body=body, media_type=media_type, etag=etag)
    return found


FILES = MappingProxyType(_read())


async def to_console(call: Call) -> Answer:
    """GET /: where people look first."""
    return Answer(b"", status=302, headers={"Location": "/console/"}, media_type="text/html")


async def send_file(call: Call) -> Answer:
    """GET /console/{file}: one file; the browser asks each time whether it changed."""
    file = FILES.get(call.part("file") or START)
    if file is None:
        raise not_found("such page")
    headers = {
        "Cache-Control": "no-cache",
        "ETag": file.etag,
        "Content-Security-Policy": CLOSED,
        "Referrer-Policy": "no-referrer",
    }
    if call.request.headers.get("If-None-Match") == file.etag:
        return Answer(b"", status=304, headers=headers, media_type=file.media_type)
    return Answer(file.body, headers=headers, media_type=file.media_type)
