"""Every edit of a setting is remembered with who, when, why and from what to what: the latest, and never too many."""

from msgspec.structs import replace
from tests.make import HOUR, World, group, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Policy, Pool
from gangline_core.door.removal import closing
from gangline_core.fold import HANDLERS
from gangline_core.fold import edits as fold_edits
from gangline_core.groups import Group, Token, User, UserClass
from gangline_core.reserving.windows import Window
from gangline_core.setting_edit import SettingEdit
from gangline_core.state import decode_snapshot, encode_snapshot


def world() -> World:
    return World(node("n1"), groups=[group("lab")])


def last(made: World, kind: str, name: str = "") -> SettingEdit:
    return made.state.kept.edits[kind][name][-1]


def test_an_edit_tells_who_when_why_and_only_what_it_changed():
    made = world()
    made.tell("admission", f.GroupSet(group=group("lab", limit={"gpu_milli": 8000}, version=2), by="ada", why="grant"))
    made.wait(60)
    wanted = group("lab", limit={"gpu_milli": 16_000, "jobs": 4}, weight=3, version=3)
    made.tell("admission", f.GroupSet(group=wanted, by="eve", why="deadline"))
    edit = last(made, "group", "lab")
    assert (edit.act, edit.by, edit.why, edit.version, edit.at) == ("changed", "eve", "deadline", 3, made.at)
    assert edit.changes == (
        ("limit.gpu_milli", "8000", "16000"),
        ("limit.jobs", "", "4"),
        ("weight", str(Group(path="x").weight), "3"),
    )
    assert [one.by for one in made.state.kept.edits["group"]["lab"]][-2:] == ["ada", "eve"]


def test_every_kind_of_setting_is_recorded_and_a_token_without_its_secret():
    made = world()
    window = Window(name="bios", pool="default", start_ms=made.at, end_ms=made.at + HOUR, version=1)
    token = Token(digest="d" * 64, name="ci", role="user", user="ann", groups=("lab",))
    policy = replace(made.state.kept.pools["default"].policy, ordering="fifo", version=7)
    made.tell("admission", f.UserSet(user=User(name="ann", group="lab", level=2, version=1), by="ada"))
    made.tell("admission", f.ClassSet(user_class=UserClass(name="phd", level=1, version=1), by="ada"))
    made.tell("admission", f.PoolSet(pool=Pool(name="default", levels={"normal": 0, "night": -1}, version=2), by="ada"))
    made.tell("admission", f.PolicySet(pool="default", policy=policy, by="ada", why="by share"))
    made.tell("admission", f.PricesSet(milli={"h100": 2500}, by="ada", version=1))
    made.tell("admission", f.PricesSet(milli={"h100": 3000, "*": 1000}, by="ada", version=2))
    made.tell("admission", f.WindowSet(window=window, by="ada"), f.TokenIssued(token=token, by="ada"))
    made.tell("admission", f.WindowRemoved(name="bios", by="bob", why="postponed"))
    made.tell("admission", f.TokenRevoked(digest=token.digest, by="bob"))
    assert last(made, "user", "lab:ann").changes == (("level", "", "2"),)
    assert last(made, "class", "phd").act == "made"
    assert ("levels.night", "", "-1") in last(made, "pool", "default").changes
    assert ("ordering", '"weighted"', '"fifo"') in last(made, "policy", "default").changes
    assert last(made, "prices").changes == (("*", "", "1000"), ("h100", "2500", "3000"))
    assert (last(made, "window", "bios").act, last(made, "window", "bios").why) == ("removed", "postponed")
    issued, revoked = made.state.kept.edits["token"][token.digest]
    assert ("role", "", '"user"') in issued.changes
    assert token.digest not in str(issued.changes)
    assert (revoked.act, revoked.by, revoked.groups) == ("removed", "bob", ("lab",))


def test_no_fact_with_who_and_a_setting_in_it_is_folded_unrecorded():
    settings = {f.ClassSet, f.GroupSet, f.UserSet, f.PoolSet, f.PolicySet, f.PricesSet, f.WindowSet, f.WindowRemoved,
                f.TokenIssued, f.TokenRevoked}  # fmt: skip
    recorded = {fact for fact, handler in HANDLERS.items() if handler.__qualname__.startswith("recorded.")}
    assert recorded == settings


def test_what_does_nothing_is_no_edit():
    made = world()
    made.submit(spec(group="lab"))
    before = made.state.kept.edits_counted
    made.tell("admission", f.WindowRemoved(name="none", by="ada"), f.TokenRevoked(digest="none", by="ada"))
    made.tell("admission", f.PolicySet(pool="none", policy=Policy(), by="ada"))
    made.tell("admission", f.GroupRemoved(path="lab", by="ada"))
    assert made.state.kept.edits_counted == before


def test_a_group_that_goes_tells_who_took_it_out_with_its_members():
    made = world()
    made.tell("admission", f.UserSet(user=User(name="ann", group="lab", version=1), by="ada"))
    made.tell("admission", f.GroupRemoved(path="lab", by="eve", why="project over"))
    assert [(one.act, one.by, one.why) for one in (last(made, "group", "lab"), last(made, "user", "lab:ann"))] == [
        ("removed", "eve", "project over")
    ] * 2


def test_a_group_that_was_drained_goes_in_the_name_of_whoever_closed_it():
    made = world().set_policy(ordering="fifo")
    job = made.submit_running(spec(group="lab"), "n1")
    made.tell("admission", *(f.GroupSet(group=one, by="eve", why="over") for one in closing(made.state, "lab")))
    assert last(made, "group", "lab").changes == (("closing", "false", "true"),)
    made.finish(job)
    assert "lab" not in made.state.kept.groups
    edit = last(made, "group", "lab")
    assert (edit.act, edit.by, edit.why) == ("removed", "eve", fold_edits.ENDED)


def test_only_the_latest_edits_and_settings_are_remembered_per_kind():
    made = world()
    for weight in range(1, 31):
        made.tell("admission", f.GroupSet(group=group("lab", weight=weight, version=weight), by="ada"))
    kept = made.state.kept.edits["group"]["lab"]
    assert len(kept) == fold_edits.EDITS_KEPT
    assert [edit.version for edit in kept] == list(range(11, 31))
    tokens = [Token(digest=f"{n:064}", name="ci", role="user", user="ann") for n in range(fold_edits.OBJECTS_KEPT + 5)]
    made.tell("admission", *(f.TokenIssued(token=token, by="ada") for token in tokens))
    assert list(made.state.kept.edits["token"]) == [token.digest for token in tokens[5:]]
    assert len(made.state.kept.edits["group"]["lab"]) == fold_edits.EDITS_KEPT


def test_a_value_beyond_all_measure_is_remembered_by_its_beginning():
    made = world()
    policy = replace(made.state.kept.pools["default"].policy, model="m" * 100_000)
    made.tell("admission", f.PolicySet(pool="default", policy=policy, by="ada"))
    value = next(after for field, _, after in last(made, "policy", "default").changes if field == "model")
    assert len(value) < 2 * fold_edits.VALUE_CHARS_MAX
    assert "100002 characters" in value


def test_a_snapshot_remembers_the_same_edits():
    made = world()
    made.tell("admission", f.GroupSet(group=group("lab", weight=3), by="ada", why="ü"))
    kept, again = made.state.kept, decode_snapshot(encode_snapshot(made.state)).kept
    assert (again.edits, again.edits_counted) == (kept.edits, kept.edits_counted)


def test_a_token_tells_that_it_lost_a_group_and_which():
    made = World(node("n1"), groups=[group("lab"), group("old")])
    tokens = [
        Token(digest="1", name="both", role="user", user="ann", groups=("lab", "old")),
        Token(digest="2", name="one", role="user", user="ann", groups=("old",)),
        Token(digest="3", name="other", role="user", user="ann", groups=("lab",)),
    ]
    made.tell("admission", *(f.TokenIssued(token=token, by="ada") for token in tokens))
    made.tell("admission", f.GroupRemoved(path="old", by="bob", why="over"))
    edit = last(made, "token", "1")
    assert (edit.act, edit.by, edit.why) == ("changed", "bob", "group old is removed")
    assert edit.changes == (("groups", '["lab","old"]', '["lab"]'),)
    gone = last(made, "token", "2")
    assert (gone.act, gone.changes) == ("removed", (("groups", '["old"]', ""),))
    assert last(made, "token", "3").act == "made"
    made.tell("admission", f.UserSet(user=User(name="ann", group="lab", version=1), by="ada"))
    made.tell("admission", f.UserRemoved(group="lab", user="ann", by="eve"))
    left = last(made, "token", "1")
    assert (left.act, left.by, left.why) == ("removed", "eve", "user ann leaves group lab")
    before = made.state.kept.edits["token"]["2"]
    assert len(before) == 2, "what a revoked token would have lost is nobody's news"
