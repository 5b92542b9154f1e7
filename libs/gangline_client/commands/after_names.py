"""Which jobs `--after` names: a name is that of the newest job that has it, as everywhere on the command line."""

from collections.abc import Collection, Sequence

from gangline_client.job_names import find_job, is_element, is_number
from gangline_client.session import Session
from gangline_wire.jobfile_order import KINDS


async def numbered(
    session: Session, texts: Sequence[str], *, in_call: Collection[str] = (), is_quiet: bool = False
) -> list[str]:
    """The same with numbers for names, which are told; jobs of the same call keep theirs, for they have no number yet.

    Raises:
        InputError: no job of some name can be seen.
    """
    found: list[str] = []
    for text in texts:
        kind, colon, name = text.partition(":")
        if not colon or kind not in KINDS:
            kind, colon, name = "", "", text
        array, _, index = name.rpartition("_")
        if is_number(name) or is_element(name) or name in in_call or (array in in_call and is_number(index)):
            found.append(text)
            continue
        job = await find_job(session.client, name)
        if not is_quiet:
            session.console.note(f"{name} is job {job}.")
        found.append(f"{kind}{colon}{job}")
    return found
