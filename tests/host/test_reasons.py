"""Errors of the host: each reason has a Chinese text, and the text asks for nothing that the error does not carry."""

import ast
import importlib
import itertools
import pkgutil
import string
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import get_args

import bollard.host
import bollard.knowledge
from bollard.cli.language import read_texts
from bollard.host.approvals import approval
from bollard.host.errors import HostError
from bollard.host.log.saved_resources import ResourceKind
from bollard.host.models.failures import Reason
from bollard.host.runs.backlog import ShareKind
from bollard.host.store.rows import POLICY_KINDS
from bollard.knowledge.errors import Absent, OutOfService, TooLarge, Unreadable
from bollard.protocol import FAILURE_CODES
from bollard.wire.addresses import UrlReason

ROOTS = (Path(bollard.host.__file__).parent, Path(bollard.knowledge.__file__).parent)
REASONS = read_texts("zh_Hans/reasons")
Function = ast.FunctionDef | ast.AsyncFunctionDef

ELSEWHERE: Mapping[str, set[str]] = {
    "agents/config_form.py:_refused": {"invalid_argument.invalid_config", "invalid_argument.unknown_files"},
    "approvals/approval.py:stale_error": {f"conflict.{reason}" for reason, _ in approval._STALE.values()},
    "channels/signed_body.py:check_reach": {
        f"invalid_argument.{noun}_url_denied" for noun in ("channel", "subscription")
    },
    "events/placement.py:_crowded": {f"rate_limited.{kind}_share_full" for kind in get_args(ShareKind)},
    "http/auth/channel_signatures.py:_unsigned": {
        f"unauthenticated.signature_{fault}" for fault in ("missing", "malformed", "late", "forged")
    },
    "log/saved_resources.py:missing": {f"not_found.no_{kind}" for kind in POLICY_KINDS},
    "mcp/servers.py:_check_url": {f"invalid_argument.{reason}" for reason in get_args(UrlReason)},
    "models/demo.py:_fail": {f"model_failed.{reason}" for reason in get_args(Reason)},
    "models/failures.py:failed": {f"model_failed.{reason}" for reason in get_args(Reason)},
    "models/specs.py:check_url": {f"invalid_argument.{reason}" for reason in get_args(UrlReason)},
    "models/registry.py:_refuse_fixed": {"conflict.model_builtin", "conflict.model_environment"},
    # The reason is that of another error, or the argument of the caller.
    "agents/saved_body.py:invalid": set(),
    "actions/call_records.py:_failed": set(),
    "http/revisions.py:held_to_match": set(),
    "knowledge/engine.py:_opened": set(),
    "models/failures.py:_copy": set(),
    "plain_text.py:error": set(),
    "postgres.py:writing": set(),
}
"""The reasons of the functions whose reasons a reader of the module alone does not find."""


def _subclasses(kind: type[HostError]) -> Iterator[type[HostError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _subclasses(each)


@cache
def _codes() -> dict[str, str]:
    """The code of every class of errors. `Unusable` is left out: the host checks a question before the process does."""
    for module in pkgutil.walk_packages([str(ROOTS[0])], "bollard.host."):
        if not module.name.startswith("bollard.host.store.migrations"):
            importlib.import_module(module.name)
    kinds = [*_subclasses(HostError), Absent, OutOfService, *OutOfService.__subclasses__(), TooLarge, Unreadable]
    return {kind.__name__: kind.code for kind in kinds}


class NotInModule(Exception):
    """The module alone does not have the values of an expression."""


class Source:
    """The calls of one module, each with the innermost function around it."""

    def __init__(self, path: Path) -> None:
        self.calls: list[tuple[Function | None, str, ast.Call]] = []
        self._collect(ast.parse(path.read_text("utf-8")), None)

    def _collect(self, node: ast.AST, around: Function | None) -> None:
        if isinstance(node, ast.Call):
            self.calls.append((around, getattr(node.func, "id", getattr(node.func, "attr", "")), node))
        inside = node if isinstance(node, Function) else around
        for child in ast.iter_child_nodes(node):
            self._collect(child, inside)

    def values(self, value: ast.expr, function: Function | None) -> set[str]:
        """Every text that an expression in a function can be. Raises `NotInModule`."""
        match value:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.IfExp():
                return self.values(value.body, function) | self.values(value.orelse, function)
            case ast.JoinedStr():
                pieces = [self.values(each, function) for each in value.values]
                return {"".join(each) for each in itertools.product(*pieces)}
            case ast.FormattedValue():
                return self.values(value.value, function)
            case ast.Name(id=name) if function is not None:
                return self._of_parameter(name, function) or self._of_variable(name, function)
            case _:
                raise NotInModule

    def _of_parameter(self, name: str, function: Function) -> set[str]:
        """The arguments of the calls of the function in this module, and the default."""
        taken = function.args
        names = [each.arg for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
        if name not in names:
            return set()
        place = [each for each in names if each not in ("self", "cls")].index(name)
        defaults = dict(zip([each.arg for each in taken.kwonlyargs], taken.kw_defaults, strict=True))
        found: set[str] = set()
        for around, called, call in self.calls:
            if called == function.name:
                given = {each.arg: each.value for each in call.keywords}
                value = given.get(name) or (call.args[place] if place < len(call.args) else defaults.get(name))
                if value is None:
                    raise NotInModule
                found |= self.values(value, around)
        return found or self.values(defaults.get(name) or ast.Name(id=""), None)

    def _of_variable(self, name: str, function: Function) -> set[str]:
        """The values that the function assigns to it, alone or as one of several."""
        found: set[str] = set()
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    found |= self.values(node.value, function)
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts, strict=True)
                    for part in (value for each, value in pairs if isinstance(each, ast.Name) and each.id == name):
                        found |= self.values(part, function)
        if not found:
            raise NotInModule
        return found - {""}


@cache
def _raised() -> tuple[list[tuple[str, str, set[str] | None]], set[str]]:
    """Where an error is made, its code and reason, and the names of its details if they are all named there; and the
    functions whose reasons the module does not have."""
    found: list[tuple[str, str, set[str] | None]] = []
    unknown: set[str] = set()
    for root in ROOTS:
        for path in sorted(root.rglob("*.py")):
            source = Source(path)
            for function, name, call in source.calls:
                given = {each.arg: each.value for each in call.keywords}
                code = _codes().get(name)
                if name == "Refused" and isinstance(given.get("code"), ast.Constant):  # a gate of an agent
                    code, given = given["code"].value, {**given, None: call}
                if name == "invalid" and len(call.args) > 1:  # of a saved body: reason, field, problem, hint
                    code, given = "invalid_argument", {**given, "reason": call.args[0], "field": call.args[1]}
                if code is None or "reason" not in given:
                    continue
                where = f"{path.relative_to(root)}:{function.name if function else ''}"
                try:
                    reasons = source.values(given["reason"], function)
                except NotInModule:
                    unknown.add(where)
                else:
                    details = None if None in given else set(given) - {"hint"}
                    found += [(where, f"{code}.{reason}", details) for reason in sorted(reasons)]
    return found, unknown


def test_every_reason_has_a_chinese_text() -> None:
    missing = [f"{where} {reason}" for where, reason, _ in _raised()[0] if reason not in REASONS]
    missing += [f"{where} {reason}" for where, reasons in ELSEWHERE.items() for reason in reasons - set(REASONS)]
    assert not missing, "\n".join(missing)
    assert set(REASONS) > {
        "invalid_argument.top_k_out_of_range",  # of the knowledge process, by the code `invalid_request`
        "payload_too_large.event_body",  # of `body_too_large`, from another module
        "unauthenticated.token_required",  # the default of its class
    }


def test_every_kind_of_resource_with_a_limit_has_a_chinese_text_for_it() -> None:
    _codes()  # loads every module
    modules = [module for name, module in sys.modules.items() if name.startswith("bollard.host.")]
    kinds = [each for module in modules for each in vars(module).values() if isinstance(each, ResourceKind)]
    limited = {each.kind: f"{each.full.code}.{each.kind}_limit" for each in kinds if each.limit is not None}
    assert len(limited) > 5
    assert set(limited.values()) - set(REASONS) == set()


def test_every_function_with_reasons_of_another_module_is_listed() -> None:
    assert _raised()[1] == set(ELSEWHERE)


def test_every_code_of_a_rejected_event_or_an_ended_run_has_a_chinese_text() -> None:
    rejections = {"agent_refused", "command", "content_blocked", "event_hops", "event_loop", "expired", "missed"}
    rejections |= {"no_agent", "no_binding", "not_answered", "not_started", "not_taken", "unauthorized"}
    assert {key.removeprefix("event_rejected.") for key in REASONS if key.startswith("event_rejected.")} == rejections
    assert {key.removeprefix("run_ended.") for key in REASONS if key.startswith("run_ended.")} == set(FAILURE_CODES)


def test_a_chinese_text_is_filled_from_the_details_of_its_error() -> None:
    problems: list[str] = []
    for where, reason, details in _raised()[0]:
        for text in REASONS.get(reason, {}).values() if details is not None else ():
            wanted = {name for _, name, _, _ in string.Formatter().parse(text) if name}
            if beyond := wanted - details:
                problems.append(f"{where} {reason}: {sorted(beyond)}")
    assert not problems, "\n".join(problems)
