"""Answers to webhook requests whose event is on disk: at once, fixed, or with the answer of the run."""

import asyncio
import contextlib

from starlette.responses import Response

from bollard.host.events.acceptance import Accepted
from bollard.host.hooks.hook import HookAnswer
from bollard.host.hooks.limits import HOOK_WAITS_AT_ONCE
from bollard.host.hooks.registry import HookTraffic
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.events.reception import single_answer
from bollard.host.http.resources.run_rows import accepted_body
from bollard.host.http.run_output import RunOutput
from bollard.host.runs.stream import RunReader


class HookAnswers:
    """Builds the answers of webhook routes."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    async def of(self, answer: HookAnswer, accepted: Accepted, traffic: HookTraffic) -> Response:
        match answer.mode:
            case "accepted":
                return single_answer(accepted)
            case "fixed":
                return Response(answer.body, answer.status, media_type=answer.content_type)
            case "wait":
                return await self._waited(answer, accepted, traffic)

    async def _waited(self, answer: HookAnswer, accepted: Accepted, traffic: HookTraffic) -> Response:
        """The answer of the run if it completes in time, otherwise event and run. A run is never cancelled by that."""
        output = RunOutput()
        if accepted.run_id is not None and traffic.waits < HOOK_WAITS_AT_ONCE:
            traffic.waits += 1
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(answer.wait_s):
                        await output.follow(self._reader, accepted, accepted.run_id)
            finally:
                traffic.waits -= 1
        status = output.status or "running"
        if status == "completed" and answer.format == "text":
            return Response(output.text, media_type="text/plain")
        body = accepted_body(accepted)
        if status == "completed":
            return JsonAnswer({**body, "status": status, "text": output.text})
        return JsonAnswer({**body, "status": status} if accepted.run_id is not None else body, status_code=202)
