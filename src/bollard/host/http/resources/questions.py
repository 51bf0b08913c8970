"""`/questions` and `/runs/{id}/questions`: the open questions of runs to their actors, and the answers."""

from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.approvals.questions import Question, QuestionRegistry
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import TEXT, array_of
from bollard.host.http.operations import PAGE
from bollard.host.http.queries import Pages, page_limit
from bollard.host.http.resources.declaration import DeclaredResource, answer, answer_body, operation
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.limits import ANSWER_CHARACTERS
from bollard.protocol import JsonObject, Strict

_QUESTION: Final = answer_body(
    "Question",
    {
        "question_id": "qst_01",
        "call_id": "call_01",
        "question": "Which of the two invoices do you mean?",
        "choices": ["2024-17", "2024-18"],
        "asked_at": 1790000000.0,
    },
    {"choices": array_of(TEXT)},
)

_OPEN: Final = _QUESTION.extended(
    "OpenQuestion", {"run_id": "run_01", "agent_id": "polly", "conversation_id": "support-7"}, {"conversation_id": TEXT}
)


class AnswerQuestion(Strict):
    """`POST /api/v1/runs/{id}/questions/{question}/answer`."""

    answer: Annotated[str, Field(min_length=1, max_length=ANSWER_CHARACTERS)]


_PATH: Final = "/api/v1/runs/{run_id}/questions"
_LIST: Final = "questions.list"


class Questions(DeclaredResource):
    """Shows and answers questions, for callers who may steer the run."""

    tag = "runs"

    def __init__(self, registry: QuestionRegistry, rows: RunRows, pages: Pages) -> None:
        self._registry = registry
        self._rows = rows
        self._pages = pages

    @operation(
        "GET /api/v1/questions",
        name="listQuestions",
        summary="List the open questions of all runs, oldest first.",
        description="Those of the runs that the caller may see.",
        right="runs.read",
        query=PAGE,
        answers={200: _OPEN.page("questions")},
    )
    async def list_all(self, request: Request) -> Response:
        place, limit = self._pages.place(request, _LIST), page_limit(request)
        asked = sorted(self._registry.in_workspace(caller_of(request).workspace), key=lambda each: each.question_id)
        page = [each for each in asked if place is None or each.question_id > str(place)][: limit + 1]
        runs = await self._rows.seen(request, {each.run_id for each in page})

        def shown(each: Question) -> JsonObject:
            run = runs[each.run_id]
            place: JsonObject = {} if run.conversation is None else {"conversation_id": run.conversation}
            return {**_body(each), "run_id": run.run_id, "agent_id": run.agent_id, **place}

        return self._pages.of_rows(
            request, _LIST, page, shown, lambda each: each.question_id, lambda each: each.run_id in runs
        )

    @operation(
        f"GET {_PATH}",
        name="listRunQuestions",
        summary="List the open questions of a run, oldest first.",
        right="runs.read",
        query=PAGE,
        answers={200: _QUESTION.page("questions")},
        errors=("not_found",),
    )
    async def list(self, request: Request) -> Response:
        row = await self._rows.of(request)
        purpose = f"runs.questions/{row.run_id}"
        place, limit = self._pages.place(request, purpose), page_limit(request)
        later = [
            asked for asked in self._registry.of_run(row.run_id) if place is None or asked.question_id > str(place)
        ]
        return self._pages.of_rows(request, purpose, later[: limit + 1], _body, lambda asked: asked.question_id)

    @operation(
        f"POST {_PATH}/{{question_id}}/answer",
        name="answerRunQuestion",
        summary="Answer a question of a run, which then continues.",
        description="If the question has choices, the answer must be one of them. An answer is never an approval. The "
        "next message of the asked person in the conversation also answers it, if it fits.",
        right="runs.control",
        body=AnswerQuestion,
        body_example={"answer": "2024-18"},
        answers={200: answer("The answer is on disk.", run_id="run_01", question_id="qst_01", answered=True)},
        errors=("not_found", "conflict"),
    )
    async def answer(self, request: Request) -> Response:
        body = parsed(AnswerQuestion, await read_body(request))
        row, caller = await self._rows.of(request), caller_of(request)
        await self._rows.check_steering(caller, row)
        question_id = str(request.path_params["question_id"])
        await self._registry.answer(row.run_id, question_id, body.answer, by=caller.name)
        return JsonAnswer({"run_id": row.run_id, "question_id": question_id, "answered": True})


def _body(asked: Question) -> JsonObject:
    return {**asked.data(), "asked_at": asked.asked_ms / 1000}
