"""Why a run may or may not do something: which of manifest, policy, configuration, workspace, scope, the calling run
and revocation decided. For operators: it names ids, so a runner never sees it.

Whether it may is `check`'s answer; this module only finds the reasons for that answer.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, cast, get_args

import msgspec

from bollard.host.agents.policies import OPERATIONS
from bollard.host.grants.access import ABLE_TO, Held, Rights
from bollard.host.grants.check import Denied, check
from bollard.host.grants.grant import Grant
from bollard.host.grants.offer import Kind, file_as_listed
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation
from bollard.host.grants.rules import RULES, Rule
from bollard.host.grants.words import WORDS
from bollard.protocol import ErrorCode, StateScope

__all__ = ["Explanation", "Layer", "Reason", "explain", "explain_all"]

Layer = Literal["protocol", "manifest", "policy", "configuration", "workspace", "scope", "parent", "revocation"]
_STATE_SCOPES = get_args(StateScope)


class Reason(msgspec.Struct, frozen=True):
    """One thing that was decided, by its stable key; the part before the dot says who decided."""

    key: str
    fields: Mapping[str, str]

    @property
    def layer(self) -> Layer:
        layer, dot, _ = self.key.partition(".")
        return cast("Layer", layer) if dot else "protocol"

    def words(self, language: str = "en_US") -> str:
        """The sentence in a language of `words.LANGUAGES`."""
        return WORDS[language][self.key].format(**self.fields)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with its reasons: for a yes all that had to agree, for a no those that said no."""

    action: str
    thing: str | None
    allowed: bool
    code: ErrorCode | None
    reasons: tuple[Reason, ...]


def explain(grant: Grant, revoked: Revocation, action: str, thing: str | None = None) -> Explanation:
    """Why this action on this thing may or may not be."""
    answer = check(grant, revoked, action, thing)
    rule = RULES.get(action)
    if rule is not None and rule.family == "tools" and thing is not None:
        thing = grant.access.tool_ids.get(thing, thing)
    if rule is not None and rule.family == "files" and thing is not None:
        thing = file_as_listed(thing)
    if rule is None:
        reasons = (_reason("unknown_action", action=action),)
    elif rule.family == "host":
        reasons = (_reason("always"),)
    elif not isinstance(answer, Denied):
        reasons = (*_agreed(grant, rule, thing), _reason("revocation.none"))
    elif answer.code == "revoked":
        reasons = (_reason("revocation.took"),)
    else:
        reasons = (_refused(grant, rule, thing),)
    code = answer.code if isinstance(answer, Denied) else None
    return Explanation(action=action, thing=thing, allowed=code is None, code=code, reasons=reasons)


def explain_all(grant: Grant, revoked: Revocation = NOTHING_REVOKED) -> tuple[Explanation, ...]:
    """Every action of the run API, with everything the grant knows that it could act on."""
    return tuple(
        explain(grant, revoked, rule.action, thing) for rule in RULES.values() for thing in _known(grant, rule)
    )


def _known(grant: Grant, rule: Rule) -> tuple[str | None, ...]:
    rights = grant.access.rights
    if rule.family == "state":
        return _STATE_SCOPES
    if rule.family == "storage":
        return OPERATIONS["storage"]
    if rule.action == "history.page":
        return (None, *sorted({*rights.conversations, *rights.withheld_resources.get("conversations", ())}))
    if not rule.listed:
        return (None,)
    known = {*rights.resources.get(rule.family, ()), *rights.withheld_resources.get(rule.family, ())}
    return (*sorted(known),) or (None,)


def _reason(key: str, **fields: str) -> Reason:
    return Reason(key, fields)


def _agreed(grant: Grant, rule: Rule, thing: str | None) -> Iterator[Reason]:
    """Everyone who had to agree, in the order of the intersection."""
    rights = grant.access.rights
    if rule.family == "state":
        yield _reason("policy.state", scope=thing or "")
        if thing != "runner":
            yield _reason("scope.has", scope=thing or "")
        return
    if rule.family == "steering":
        yield _reason("manifest.steers")
        yield _reason("policy.steers")
        yield _reason("scope.has", scope="conversation")
        return
    name = _operation_name(rights, rule, thing)
    yield _reason("manifest.names", operation=name)
    yield _reason("policy.names", operation=name)
    if rule.listed and thing is not None:
        yield from _held_by(rights.resources[rule.family][thing], thing)
    elif rule.family == "history" and not _own(grant, rule, thing):
        yield _reason("policy.conversation", thing=thing or "")
    elif rule.family == "history":
        yield _reason("scope.has", scope="conversation")


def _own(grant: Grant, rule: Rule, conversation: str | None) -> bool:
    """Whether a call is about the run's own conversation; one that cannot name another always is."""
    return rule.parameter is None or conversation is None or conversation == grant.scope.conversation


def _held_by(held: Held, thing: str) -> Iterator[Reason]:
    for field in held.fields:
        yield _reason("configuration.selects", field=field, thing=thing)
    if held.added:
        yield _reason("policy.adds", thing=thing)
    yield _reason("workspace.offers", thing=thing)


def _operation_name(rights: Rights, rule: Rule, thing: str | None) -> str:
    """The operation's full name. Of a file its source decides; of one that nobody knows, the family stands for it."""
    if rule.operation is not None:
        return f"{rule.family}.{rule.operation}"
    if rule.family == "files":
        held = rights.resources.get("files", {})
        return f"files.{next(iter(held[thing].operations))}" if thing is not None and thing in held else "files"
    return f"{rule.family}.{thing}" if thing is not None else rule.family


def _refused(grant: Grant, rule: Rule, thing: str | None) -> Reason:
    """Who said no first, in the order in which the answer was found."""
    rights = grant.access.rights
    if rule.family == "state":
        return _state_refused(grant, thing)
    if rule.family == "steering":
        return _steering_refused(rights)
    name = _operation_name(rights, rule, thing)
    operations = rights.operations.get(rule.family, frozenset[str]())
    if operations and thing is None and rule.operation is None:
        return _reason("names_nothing")
    if not operations or (not rule.listed and name.partition(".")[2] not in operations):
        return _operation_refused(rights, rule.family, name)
    if rule.family == "history":
        if _own(grant, rule, thing):
            return _reason("scope.lacks", scope="conversation")
        if thing in rights.withheld_resources.get("conversations", {}):
            return _reason("parent.no_conversation", thing=thing or "")
        return _reason("policy.no_conversation", thing=thing or "")
    return _thing_refused(rights, rule, name, thing)


def _operation_refused(rights: Rights, family: str, name: str) -> Reason:
    """An operation that nobody asked for is one that the manifest lacks: it limits all the others."""
    if name == family:  # the whole family: what holds for any of its operations
        name = next((each for each in rights.withheld_operations if each.startswith(f"{family}.")), name)
    why = rights.withheld_operations.get(name, "manifest")
    if why == "depth":
        return _reason("parent.depth")
    return _reason(f"{why}.lacks", operation=name)


def _thing_refused(rights: Rights, rule: Rule, name: str, thing: str | None) -> Reason:
    if thing is None:
        return _reason("names_nothing")
    granted = rights.operations[rule.family]
    why = rights.withheld_resources.get(rule.family, {}).get(thing)
    if rule.family == "tools" and thing in rights.absent:
        return _reason("workspace.absent", thing=thing, why=rights.absent[thing])
    if rule.family == "files" and why == "unfit" and len(granted) < len(OPERATIONS["files"]):
        missing = next(each for each in OPERATIONS["files"] if each not in granted)  # the source that is not granted
        return _operation_refused(rights, "files", f"files.{missing}")
    if thing in rights.resources.get(rule.family, {}) or why == "unfit":
        # The operation is missing from what is held of the thing: refused as such, or this thing cannot do it.
        if rule.operation is None or rule.operation in granted:
            return _reason("workspace.unfit", thing=thing, operation=name)
        return _operation_refused(rights, rule.family, name)
    if why == "workspace" or (why is None and rule.family == _EVERYTHING_OFFERED):
        return _reason("workspace.lacks", thing=thing)
    if why == "manifest":
        return _reason("manifest.unable", thing=thing, capability=ABLE_TO.get(thing, ""))
    if why == "policy":
        return _reason("policy.cuts", thing=thing)
    if why == "depth":
        return _reason("parent.depth")
    if why == "parent":
        return _reason("parent.lacks_thing", thing=thing)
    return _reason("configuration.lacks", thing=thing)


_EVERYTHING_OFFERED: Kind = "platform"
"""The kind that nobody selects from: what is not there is not offered."""


def _state_refused(grant: Grant, scope: str | None) -> Reason:
    rights = grant.access.rights
    if rights.withheld_operations.get(f"state.{scope}") == "parent":
        return _reason("parent.lacks", operation=f"state.{scope}")
    if scope in rights.state_scopes:
        return _reason("scope.lacks", scope=scope)
    return _reason("policy.no_state", scope=scope or "")


def _steering_refused(rights: Rights) -> Reason:
    if rights.steering:
        return _reason("scope.lacks", scope="conversation")
    why = rights.withheld_operations.get("steering.pull", "manifest")
    return _reason("parent.lacks", operation="steering.pull") if why == "parent" else _reason(f"{why}.does_not_steer")
