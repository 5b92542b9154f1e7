"""How all settings are shown and changed as one policy file."""

from gangline_core.settings import document_change as document
from gangline_core.settings.document import Change, Document
from gangline_core.settings.doubtful import doubts
from gangline_gateway.call import Answer, Call
from gangline_gateway.changing import ask
from gangline_gateway.problems import ProblemError
from gangline_gateway.settings import etag
from gangline_wire.policyfile import PolicyFileError, parse_policy
from gangline_wire.policyfile_show import field_word, path_of, show_policy
from gangline_wire.problem import FieldError
from gangline_wire.requests import ApplySettings
from gangline_wire.views import AppliedView, SettingsView, SettingView


async def get_settings(call: Call) -> Answer:
    """GET /v1/settings."""
    if not call.caller.sees_all:
        raise ProblemError("forbidden", "Only administrators and all-seeing readers see all settings.")
    version = document.version_of(call.state)
    page = show_policy(document.present(call.state))
    return Answer(SettingsView(settings=page, version=version), headers=etag(version))


async def put_settings(call: Call) -> Answer:
    """PUT /v1/settings: a policy file, whole; every part is checked against all of it before anything is written."""
    if not call.caller.is_admin:
        raise ProblemError("forbidden", "Only administrators apply policy files.")
    wanted = _read(await call.document())
    wrong = document.check(call.state, wanted, call.desk.site.now_ms())
    if wrong:
        errors = [FieldError(path=path_of(one), message=one.problem.message) for one in wrong]
        raise ProblemError("invalid_fields", f"{errors[0].path}: {errors[0].message}", errors=errors)
    changes = tuple(_view(change) for change in document.changes(call.state, wanted))
    unnamed = document.unnamed(call.state, wanted)
    done = await ask(call, ApplySettings(document=wanted, by=call.caller.user))
    now = document.version_of(call.state)
    view = AppliedView(
        changes=changes,
        unnamed=unnamed,
        version=now,
        seq=done.seq,
        dry_run=call.flag("dry_run"),
        doubts=doubts(call.state, wanted.groups),
    )
    return Answer(view, headers=etag(now))


def _read(body: object) -> Document:
    try:
        return parse_policy(body)
    except PolicyFileError as error:
        first = error.errors[0]
        raise ProblemError("invalid_fields", f"{first.path}: {first.message}", errors=error.errors) from None


def _view(change: Change) -> SettingView:
    return SettingView(
        kind=change.kind,
        name=change.name,
        field=field_word(change.kind, change.field),
        before=change.before,
        after=change.after,
    )
