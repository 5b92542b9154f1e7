"""What is sent is text: bytes of a file name or a variable that are none are told, by where they stand."""

from collections.abc import Iterator, Mapping

import msgspec

from gangline_client.errors import InputError


def as_json(body: object) -> bytes:
    """The body as it is sent.

    Raises:
        InputError: a text in it is none of UTF-8; it is not shown, as it may be a secret.
    """
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        where = next(_wrong(body, ""), "something")
        raise InputError(f"{where} is not UTF-8 text") from None


def checked(texts: Mapping[str, str]) -> dict[str, str]:
    """The same: a query or header that would be left out without a word, as a filter that is none.

    Raises:
        InputError: a text is none of UTF-8.
    """
    if (where := next(_wrong(texts, ""), None)) is not None:
        raise InputError(f"{where} is not UTF-8 text")
    return dict(texts)


def _wrong(value: object, where: str) -> Iterator[str]:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            yield where
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _wrong(key, f"a key of {where or 'the answer'}")
            yield from _wrong(one, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from _wrong(one, f"{where}[{number}]")
