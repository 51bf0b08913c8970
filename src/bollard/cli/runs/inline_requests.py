"""Approvals and questions of a run, where the person types: an approval is decided with one key, a question is answered
with a typed line."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import quote

from bollard.cli.client.host_client import HostClient, refused
from bollard.cli.errors import HostProblem
from bollard.cli.language import Text
from bollard.cli.runs.approvals import APPROVALS, approval_lines
from bollard.cli.terminal.columns import printable
from bollard.cli.terminal.renderers import Renderer, note_problem
from bollard.cli.terminal.screen import Screen
from bollard.cli.terminal.times import second_of
from bollard.protocol import JsonObject

_KEYS: Final = ("y", "n", "d")
_PAGE: Final = 100


def choice_of(typed: str, choices: list[str]) -> str:
    """The answer that was typed: a choice, or the number of one."""
    if typed not in choices and typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(choices):
        return choices[int(typed) - 1]
    return typed


class InlineRequests:
    """Shows the requests of a run on a screen. The host decides who may answer: requests go out with the caller's
    token, and a typed message never decides an approval."""

    def __init__(self, client: HostClient, renderer: Renderer, screen: Screen, text: Text) -> None:
        self._client = client
        self._renderer = renderer
        self._screen = screen
        self._text = text
        self._turn = asyncio.Lock()
        self._approvals: dict[str, asyncio.Task[None]] = {}
        self._sent: dict[str, tuple[str, str]] = {}
        """The decision of this chat and the name of the call, by approval, until the host has confirmed it."""
        self._answers: set[asyncio.Task[None]] = set()
        self._questions: dict[str, list[str]] = {}
        """The choices of each open question."""
        self._answered: set[str] = set()
        """Questions whose answer is on its way. The next line is not for them."""

    # --- what the stream reports ---

    def approval(self, data: JsonObject) -> None:
        approval_id = str(data.get("approval_id"))
        self._approvals[approval_id] = asyncio.create_task(self._decide(approval_id, str(data.get("name"))))

    def approval_ended(self, data: JsonObject) -> None:
        approval_id = str(data.get("approval_id"))
        task = self._approvals.pop(approval_id, None)
        if approval_id in self._sent:
            # The stream says so before it shows what the call returned; the answer to the request may come later.
            if data.get("decision") == self._sent[approval_id][0]:
                self._confirm(approval_id)
            return
        if task is None:
            return
        task.cancel()
        self._renderer.note(self._text("chat.decided_elsewhere", approval=approval_id))

    def question(self, data: JsonObject) -> None:
        choices = data.get("choices")
        known = [str(choice) for choice in choices] if isinstance(choices, list) else []
        self._questions[str(data.get("question_id"))] = known
        self._renderer.note(self._text("chat.asks", question=printable(str(data.get("question")))))
        for number, choice in enumerate(known, 1):
            self._renderer.note(self._text("chat.choice", number=number, choice=printable(choice)))
        self._renderer.note(self._text("chat.asks_choice" if known else "chat.asks_words"))

    def question_ended(self, data: JsonObject) -> None:
        self._questions.pop(str(data.get("question_id")), None)

    def run_ended(self) -> None:
        """The requests of the run are no longer shown."""
        self._questions.clear()
        for task in self._approvals.values():
            task.cancel()
        self._approvals.clear()

    # --- what the person does ---

    @property
    def has_question(self) -> bool:
        return not self._answered.issuperset(self._questions)

    def answer(self, run_id: str, typed: str) -> None:
        """Answer the oldest question with a typed line."""
        question_id = next(each for each in self._questions if each not in self._answered)
        self._answered.add(question_id)
        task = asyncio.create_task(self._answer(run_id, question_id, choice_of(typed, self._questions[question_id])))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, run_id: str, question_id: str, answer: str) -> None:
        path = f"/api/v1/runs/{run_id}/questions/{quote(question_id, safe='')}/answer"
        try:
            await self._client.post(path, {"answer": answer})
        except HostProblem as error:
            note_problem(self._renderer, error, self._text)
        else:
            self._questions.pop(question_id, None)
        finally:
            self._answered.discard(question_id)

    async def close(self) -> None:
        tasks = list(self._approvals.values())
        self.run_ended()
        await asyncio.gather(*tasks, *self._answers, return_exceptions=True)

    async def _decide(self, approval_id: str, name: str) -> None:
        async with self._turn:  # one at a time, in the order of the requests
            path = APPROVALS.one(approval_id)
            try:
                found: dict[str, Any] = await self._client.get(f"{path}?locale={self._text.language}")
            except HostProblem as error:
                self._left_to_others(error, approval_id, name)
                return
            if found["status"] != "requested":
                return
            for line in approval_lines(found, self._text):
                self._screen.write(line)
            if (refusal := found.get("refusal")) is not None:
                self._left_to_others(refused(refusal), approval_id, name)
                return
            await self._screen.pause()
            decision = await self._decision(found)
            body: JsonObject = {"decision": decision, "digest": found["digest"]}
            if found["display"]["attached"] and decision == "allow_once":
                body["inspected"] = True
            self._sent[approval_id] = decision, str(found["name"])
            try:
                await self._client.post(f"{path}/decide", body)
            except HostProblem as error:
                if self._sent.pop(approval_id, None) is not None:
                    self._left_to_others(error, approval_id, name)
            else:
                self._confirm(approval_id)

    def _confirm(self, approval_id: str) -> None:
        """Show the decision of this chat, once."""
        if (sent := self._sent.pop(approval_id, None)) is not None:
            decision, name = sent
            self._renderer.note(self._text(f"approvals.decided.{decision}", name=printable(name)))

    def _left_to_others(self, error: HostProblem, approval_id: str, name: str) -> None:
        """Say why the person cannot decide, and who can."""
        note_problem(self._renderer, error, self._text)
        self._renderer.note(self._text("chat.waits_for_approver", name=printable(name), approval=approval_id))

    async def _decision(self, found: dict[str, Any]) -> str:
        """What the person decides. Attached content is to be opened first."""
        unseen = bool(found["display"]["attached"])
        while True:
            key = await self._screen.ask_key(self._text("chat.ask_key"), _KEYS)
            if key == "n":
                return "deny"
            if key == "d":
                unseen = not await self._details(found) and unseen
            elif unseen:
                self._renderer.note(self._text("chat.look_first"))
            else:
                return "allow_once"

    async def _details(self, found: dict[str, Any]) -> bool:
        """Show the facts of the approval and its attached content. False if the host does not give it."""
        facts = {name: printable(str(found[name])) for name in ("approval_id", "run_id", "agent_id", "digest")}
        expires = second_of(found["expires_at"])
        self._screen.write(self._text("chat.approval_facts", expires=expires, **facts))
        try:
            for content in found["display"]["attached"]:
                self._screen.write(self._text("chat.attached", number=content["number"], size=content["bytes"]))
                async for line in self._content(found["approval_id"], content["number"]):
                    self._screen.write(f"  {printable(line)}")
        except HostProblem as error:
            note_problem(self._renderer, error, self._text)
            return False
        return True

    async def _content(self, approval_id: str, number: int) -> AsyncIterator[str]:
        line = 0
        while True:
            path = APPROVALS.one(approval_id, f"/contents/{number}?line={line}&limit={_PAGE}")
            page: dict[str, Any] = await self._client.get(path)
            for each in page["lines"]:
                yield str(each)
            line += len(page["lines"])
            if line >= page["total"] or not page["lines"]:
                return
