"""`/approvals`: list approvals, show them as the host renders them, and decide them. This module converts JSON only;
`host/approvals` decides what a decision does."""

import asyncio
from typing import Annotated, Final, Literal, cast

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.approvals.approval import DECISIONS, Approval, approval_of, no_approval, outcome_of
from bollard.host.approvals.approvals import Approvals
from bollard.host.approvals.approvers import Approvers
from bollard.host.approvals.decisions import Verdict
from bollard.host.approvals.display import display, lines_of
from bollard.host.capabilities.capability import RISKS
from bollard.host.errors import Forbidden, NotFound
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import ANY, FLAG, NUMBER, TEXT, TIME, array_of, choice, fields
from bollard.host.http.operations import PAGE, Answer, QueryField, leads_to
from bollard.host.http.queries import Pages, page_limit, whole_number, whole_number_in
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation, seconds
from bollard.host.http.revisions import edited_revision, revised
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller
from bollard.host.store.action_rows import ApprovalRow, ApprovalStatus
from bollard.host.store.rows import RunRow
from bollard.host.store.store import Store
from bollard.host.texts import LOCALES, Locale
from bollard.protocol import Flag, JsonObject, Strict

_LIST: Final = "approvals.list"
_ID_CHARACTERS: Final = 64
_STATUSES: Final[tuple[ApprovalStatus, ...]] = ("requested", "granted", "denied", "expired", "used")
_REVISIONS: Final = {"requested": 1, "granted": 2, "denied": 2, "expired": 2, "used": 3}
"""The revision of an approval grows when it is decided and when its call was made."""
_DECIDED: Final[JsonObject] = {
    "decided_at": TIME,
    "decision": choice(*DECISIONS),
    "by": TEXT,
    "reason": TEXT,
    "inspected": FLAG,
}
_LINE: Final = fields(
    {"notes": array_of(choice("hidden", "right_to_left"))},
    part=choice("about", "arguments", "explanation"),
    place=TEXT,
    label=TEXT,
    text=TEXT,
)
_ATTACHED: Final = fields(number=NUMBER, place=TEXT, characters=NUMBER, bytes=NUMBER, sha256=TEXT)
_DISPLAY: Final = fields(lines=array_of(_LINE), attached=array_of(_ATTACHED))
_LISTED: Final = answer_body(
    "ApprovalSummary",
    {
        "approval_id": "apr_01",
        "run_id": "run_01",
        "call_id": "call_01",
        "agent_id": "polly",
        "capability": "mcp:github/create_issue",
        "name": "create_issue",
        "risk": "high",
        "status": "requested",
        "digest": "0" * 64,
        "requested_at": 1790000000.0,
        "expires_at": 1790000900.0,
    },
    _DECIDED,
    risk=choice(*RISKS),
    status=choice(*_STATUSES),
)
_SHOWN: Final = _LISTED.extended(
    "Approval",
    {
        "display": {
            "lines": [
                {
                    "part": "about",
                    "place": "capability",
                    "label": "tool",
                    "text": "mcp:github/create_issue (create_issue)",
                },
                {"part": "arguments", "place": "arguments.title", "label": "arguments", "text": '"A title"'},
            ],
            "attached": [],
        }
    },
    {"refusal": fields(code=TEXT, message=TEXT, hint=TEXT, details=ANY)},
    display=_DISPLAY,
)
_LOCALE: Final = QueryField(name="locale", summary="The language of the labels.", choices=LOCALES, default="en_US")
_APPROVAL: Final = "/api/v1/approvals/{approval_id}"


class DecideApproval(Strict):
    """`POST /api/v1/approvals/{id}/decide`: the decision about an approval."""

    decision: Literal["allow_once", "allow_run", "deny", "deny_stop"]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="The digest of the displayed approval. A decision with another digest has no effect."
    )
    inspected: Flag | None = Field(
        default=None, description="For attached content: true if it was opened, false to allow it unseen."
    )


class ApprovalRoutes(DeclaredResource):
    """Shows and decides."""

    tag = "approvals"

    def __init__(
        self, *, approvals: Approvals, store: Store, approvers: Approvers, audience: Audience, pages: Pages
    ) -> None:
        self._approvals = approvals
        self._store = store
        self._approvers = approvers
        self._audience = audience
        self._pages = pages

    @operation(
        "GET /api/v1/approvals",
        name="listApprovals",
        summary="List the approvals that agents requested, newest first.",
        description="Only approvals of runs that the caller may see.",
        right="approvals.read",
        query=(
            *PAGE,
            QueryField(name="status", summary="Only approvals with this status.", choices=_STATUSES),
            QueryField(name="run", summary="Only approvals of this run.", most=_ID_CHARACTERS, example="run_01"),
        ),
        answers={200: _LISTED.page("approvals")},
    )
    async def list(self, request: Request) -> Response:
        limit, place = page_limit(request), self._pages.place(request, _LIST)
        before = (int(str(place[0])), str(place[1])) if isinstance(place, list) else None
        status = cast("ApprovalStatus | None", request.query_params.get("status"))
        caller = caller_of(request)
        run_id = request.query_params.get("run")
        rows = await asyncio.to_thread(self._store.approvals, caller.workspace, status, before, limit + 1, run_id)
        seen = [row for row in rows if await self._sees(caller, row)]
        # Each may hold a megabyte of arguments, so they are not read on the loop.
        summaries = await asyncio.to_thread(lambda: {row.approval_id: _summary(row, approval_of(row)) for row in seen})
        return self._pages.of_rows(
            request,
            _LIST,
            rows,
            lambda row: summaries[row.approval_id],
            lambda row: [row.created_ms, row.approval_id],
            lambda row: row.approval_id in summaries,
        )

    @operation(
        f"GET {_APPROVAL}",
        name="getApproval",
        summary="Show one approval with the whole call, as the host renders it.",
        description="Every `text` is one line of plain text without hidden characters; it is never markup. Long values "
        "are attached, with their length and digest. A caller who may not decide it gets "
        "the `refusal` of a decision.",
        right="approvals.read",
        query=(_LOCALE,),
        editable=True,
        answers={
            200: _SHOWN.answer("The approval.", links=leads_to("approval_id", decideApproval="Allow it or deny it."))
        },
        errors=("not_found",),
    )
    async def get(self, request: Request) -> Response:
        row, approval = await self._one(request)
        locale = cast("Locale", request.query_params.get("locale", "en_US"))
        shown = await asyncio.to_thread(display, approval, locale)
        body: JsonObject = {**_summary(row, approval), "display": shown.to_wire()}
        if (refusal := await self._refusal(caller_of(request), approval, row)) is not None:
            about = {"code": refusal.code, "message": refusal.message, "hint": refusal.hint}
            body["refusal"] = {**about, "details": refusal.details}
        return revised(request, body, _REVISIONS[row.status])

    @operation(
        f"GET {_APPROVAL}/contents/{{number}}",
        name="getApprovalContent",
        summary="Show attached content of an approval completely, as lines without hidden characters.",
        right="approvals.read",
        query=(PAGE[0], QueryField(name="line", summary="The first line.", kind="number", most=10_000_000, default=0)),
        answers={
            200: Answer(
                summary="A part of its lines.",
                schema=fields(lines=array_of(TEXT), first=NUMBER, total=NUMBER, content=_ATTACHED),
                example={
                    "lines": ["#!/bin/sh\u27eaU+000A\u27eb"],
                    "first": 0,
                    "total": 1,
                    "content": {
                        "number": 1,
                        "place": "arguments.script",
                        "characters": 4096,
                        "bytes": 4096,
                        "sha256": "0" * 64,
                    },
                },
            )
        },
        errors=("not_found",),
    )
    async def content(self, request: Request) -> Response:
        row, approval = await self._one(request)
        number = whole_number_in(request.path_params["number"], "number", "use the number that the approval names")
        attached = (await asyncio.to_thread(display, approval)).attached
        if not 1 <= number <= len(attached):
            raise NotFound(
                "the approval has no such attachment",
                reason="no_attachment",
                hint="display.attached lists the attachments",
            )
        found = attached[number - 1]
        lines = await asyncio.to_thread(lines_of, found.content)
        first = whole_number(request, "line", "use the number of a line") or 0
        open_one = self._approvals.registry.get(row.workspace, row.approval_id)
        if open_one is not None:
            open_one.opened_by.add((caller_of(request).name, number))
        some = lines[first : first + page_limit(request)]
        return JsonAnswer({"lines": [*some], "first": first, "total": len(lines), "content": found.to_wire()})

    @operation(
        f"POST {_APPROVAL}/decide",
        name="decideApproval",
        summary="Allow or deny a requested call.",
        description="`allow_once` allows this one call, `allow_run` the same tool for the rest of the run, and "
        "`deny_stop` also stops the run. Callers in the agent's `policy.audience.approve`, and callers who "
        "may change the agent, may decide. If the approval was decided, has expired or has another `digest`, "
        "the answer is `conflict`, and the decision has no effect.",
        right="approvals.decide",
        editable=True,
        body=DecideApproval,
        body_example={"decision": "allow_once", "digest": "0" * 64},
        answers={
            200: Answer(
                summary="The approval is decided.",
                schema=_LISTED.schema,
                example={
                    **_LISTED.example,
                    "status": "granted",
                    "decision": "allow_once",
                    "by": "user:ann",
                    "decided_at": 1790000042.0,
                },
            )
        },
        errors=("not_found", "conflict", "precondition_failed", "audit_unavailable"),
    )
    async def decide(self, request: Request) -> Response:
        body = parsed(DecideApproval, await read_body(request))
        row, approval = await self._one(request)
        caller = caller_of(request)
        await self._approvers.check(caller, approval, await self._run_of(row))
        edited_revision(request, _REVISIONS[row.status], {})
        verdict = Verdict(decision=body.decision, digest=body.digest, by=caller.name, inspected=body.inspected)
        await self._approvals.decide(row.workspace, row.approval_id, verdict)
        row = await asyncio.to_thread(self._store.approval, row.workspace, row.approval_id) or row
        return revised(request, _summary(row, approval), _REVISIONS[row.status])

    # --- access ---

    async def _one(self, request: Request) -> tuple[ApprovalRow, Approval]:
        """The approval of the path, for callers who may see its run or decide it. Raises `NotFound`."""
        approval_id, caller = str(request.path_params["approval_id"]), caller_of(request)
        row = None
        if len(approval_id) <= _ID_CHARACTERS:
            row = await asyncio.to_thread(self._store.approval, caller.workspace, approval_id)
        if row is None or not await self._sees(caller, row):
            raise no_approval()
        return row, approval_of(row)

    async def _sees(self, caller: Caller, row: ApprovalRow) -> bool:
        if await self._audience.sees_run(caller, row.run_id):
            return True
        run = await asyncio.to_thread(self._store.run, row.run_id)
        return run is not None and await self._audience.may(caller, "approve", run)

    async def _run_of(self, row: ApprovalRow) -> RunRow:
        run = await asyncio.to_thread(self._store.run, row.run_id)
        if run is None:
            raise no_approval()
        return run

    async def _refusal(self, caller: Caller, approval: Approval, row: ApprovalRow) -> Forbidden | None:
        """The error that a decision of the caller would get; `None` if the caller may decide."""
        try:
            caller.require("approvals.decide")
            await self._approvers.check(caller, approval, await self._run_of(row))
        except Forbidden as error:
            return error
        return None


def _summary(row: ApprovalRow, approval: Approval) -> JsonObject:
    outcome = outcome_of(row)
    return _LISTED.of(
        row,
        capability=approval.capability,
        name=approval.name,
        risk=approval.risk,
        requested_at=row.created_ms / 1000,
        decided_at=seconds(row.decided_ms),
        decision=outcome.decision,
        by=outcome.by,
        reason=outcome.reason,
        inspected=outcome.inspected,
    )
