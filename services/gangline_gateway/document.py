"""How all settings are shown and changed as one policy file."""

from gangline_core.settings import document_change as document
from gangline_core.settings.document import Change, Document
from gangline_core.settings.doubtful import doubts
from gangline_gateway.asking import denied
from gangline_gateway.call import Answer, Call
from gangline_gateway.problems import ProblemError
from gangline_gateway.settings import etag, if_version, why_of
from gangline_wire.policyfile import PolicyFileError, parse_policy
from gangline_wire.policyfile_show import field_word, path_of, show_policy
from gangline_wire.problem import FieldError
from gangline_wire.requests import ApplySettings, Denied, Done
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
    unnamed, version, dry_run = document.unnamed(call.state, wanted), if_version(call), call.flag("dry_run")
    request = ApplySettings(document=wanted, by=call.caller.user, why=why_of(call), if_version=version, dry_run=dry_run)
    reply = await call.desk.asker.ask(request)
    if isinstance(reply, Denied):
        raise denied(reply, conflict="version_conflict" if version >= 0 else "conflict")
    assert isinstance(reply, Done), "settings are done or denied"
    now = document.version_of(call.state)
    view = AppliedView(
        changes=changes,
        unnamed=unnamed,
        version=now,
        seq=reply.seq,
        dry_run=dry_run,
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
