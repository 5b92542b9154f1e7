"""How bearer tokens are made, shown and revoked. Only their hashes are kept."""

from hashlib import sha256

from gangline_core.groups import Token
from gangline_core.state import State
from gangline_gateway.access import Caller, Role, is_head
from gangline_gateway.call import Answer, Call
from gangline_gateway.problems import ProblemError, invalid, not_found
from gangline_wire.fields import each, listed, read_fields, text, visible_text
from gangline_wire.jobfile_order import MS_MOST
from gangline_wire.jobfile_terms import duration, read_user
from gangline_wire.limits import most
from gangline_wire.names import group_path
from gangline_wire.problem import FieldError, WrongValueError
from gangline_wire.quantity import kind_name
from gangline_wire.requests import IssueToken, RevokeToken
from gangline_wire.views import DoneView, IssuedTokenView, TokensView, TokenView, WhoamiView

TOKEN_BYTES = 32
PREFIX = "gl_"
"""A token is recognised by its first letters, so that scanners for leaked secrets can find it."""


async def whoami(call: Call) -> WhoamiView:
    """GET /v1/whoami."""
    caller = call.caller
    return WhoamiView(
        user=caller.user, role=caller.role.value, name=caller.name, groups=caller.groups, expires_ms=caller.expires_ms
    )


async def list_tokens(call: Call) -> TokensView:
    """GET /v1/tokens: all for administrators, what it may revoke and its own for everybody else."""
    shown = [token for token in call.state.kept.tokens.values() if sees_token(call.state, call.caller, token)]
    shown.sort(key=lambda token: (token.name, token.digest))
    told = shown[: most("group_users")]
    return TokensView(tokens=tuple(_view(token) for token in told), left_out=len(shown) - len(told))


async def issue_token(call: Call) -> Answer:
    """POST /v1/tokens: a new token, shown this once. Heads issue user and read-only tokens for what they lead."""
    caller = call.caller
    name, role, user, groups, expires_ms = _read(call, await call.document())
    secret = f"{PREFIX}{call.desk.site.ids.token(TOKEN_BYTES)}"
    token = Token(
        digest=sha256(secret.encode()).hexdigest(),
        name=name,
        role=role.value,
        user=user,
        groups=groups,
        expires_ms=expires_ms,
    )
    if not _may_issue(call.state, caller, token):
        raise ProblemError("forbidden", "Heads issue user and readonly tokens for groups they lead; nobody else may.")
    await call.desk.asker.change(IssueToken(token=token, by=caller.user))
    return Answer(IssuedTokenView(token=secret, view=_view(token)), status=201)


async def revoke_token(call: Call) -> DoneView:
    """DELETE /v1/tokens/{digest}."""
    token = call.state.kept.tokens.get(call.part("digest"))
    if token is None or not sees_token(call.state, call.caller, token):
        raise not_found("such token")
    if not call.caller.may_change:
        raise ProblemError("forbidden", "A read-only token changes nothing.")
    reply = await call.desk.asker.change(RevokeToken(digest=token.digest, by=call.caller.user))
    return DoneView(seq=reply.seq)


def _view(token: Token) -> TokenView:
    return TokenView(
        digest=token.digest,
        name=token.name,
        role=token.role,
        user=token.user,
        groups=token.groups,
        expires_ms=token.expires_ms,
        revoked=token.revoked,
    )


def sees_token(state: State, caller: Caller, token: Token) -> bool:
    """True when the caller may know that this token exists."""
    if caller.is_admin or caller.digest == token.digest:
        return True
    if token.role in (Role.ADMIN, Role.HEAD):
        return False
    if caller.user == token.user and bool(token.groups) and set(token.groups) <= set(caller.groups):
        return True
    return bool(token.groups) and all(is_head(state, caller, group) for group in token.groups)


def _may_issue(state: State, caller: Caller, token: Token) -> bool:
    if caller.is_admin:
        return True
    if token.role not in (Role.USER, Role.READONLY) or not token.groups:
        return False
    return caller.may_change and all(is_head(state, caller, group) for group in token.groups)


def _read(call: Call, document: object) -> tuple[str, Role, str, tuple[str, ...], int]:
    """Name, role, user, groups and expiry of a token to be made.

    Raises:
        ProblemError: some fields are wrong or missing.
    """
    if not isinstance(document, dict):
        raise invalid("", f"must be a mapping, not {kind_name(document)}")
    errors: list[FieldError] = []
    kept = read_fields(document, FIELDS, errors)
    for field in ("name", "role"):
        if not kept.get(field) and not any(error.path == field for error in errors):
            errors.append(FieldError(path=field, message="is missing"))
    if errors:
        raise ProblemError("invalid_fields", f"{errors[0].path}: {errors[0].message}", errors=errors)
    role: Role = kept["role"]
    user = kept.get("user") or ""
    if not user:
        raise invalid("user", "is missing: say for whom the token is")
    groups: tuple[str, ...] = kept.get("groups", ())
    if role in (Role.USER, Role.HEAD) and not groups:
        raise invalid("groups", f"must name at least one group for role {role}")
    for index, group in enumerate(groups):
        if group not in call.state.kept.groups:
            raise invalid(f"groups[{index}]", "is no group")
    return kept["name"], role, user, groups, _expires(call, kept)


def _expires(call: Call, kept: dict[str, int]) -> int:
    now = call.desk.site.now_ms()
    if kept.get("expires_in_s"):
        return now + kept["expires_in_s"] * 1000
    expires_ms = kept.get("expires_ms", 0)
    if expires_ms and expires_ms <= now:
        raise invalid("expires_ms", "is in the past")
    return expires_ms


def _role(value: object) -> Role:
    try:
        return Role(text(value))
    except ValueError:
        raise WrongValueError(f"must be one of {', '.join(Role)}") from None


def _groups(value: object) -> tuple[str, ...]:
    return each(listed(value, "roles"), lambda item: group_path(text(item), most("group_chars")))


def _user(value: object) -> str:
    return "" if value == "" else read_user(value)


def _expiry(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MS_MOST:
        raise WrongValueError("must be milliseconds since 1970, or 0 for never")
    return value


FIELDS = {
    "name": ("name", visible_text("name_chars")),
    "role": ("role", _role),
    "user": ("user", _user),
    "groups": ("groups", _groups),
    "expires_in": ("expires_in_s", duration("duration_s", least=1)),
    "expires_ms": ("expires_ms", _expiry),
}
