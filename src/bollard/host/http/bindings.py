"""`/bindings`: which agent gets which events."""

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.binding import Binding
from bollard.host.agents.binding_book import BindingBook
from bollard.host.agents.binding_wire import binding_to_wire
from bollard.host.agents.keeping import Keeper
from bollard.host.errors import NotFound
from bollard.host.http.agents import named_by_path
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.control import ADMIN
from bollard.host.http.requests import whole_number
from bollard.host.http.run_rows import WORKSPACE
from bollard.protocol import JsonObject

__all__ = ["Bindings"]


class Bindings:
    """Bindings as people save them."""

    def __init__(self, book: BindingBook, keeper: Keeper) -> None:
        self._book = book
        self._keeper = keeper

    async def list(self, request: Request) -> Response:
        del request
        return JsonAnswer({"items": [self._shown(binding) for binding in self._book.all(WORKSPACE)]})

    async def get(self, request: Request) -> Response:
        binding = self._book.get(request.path_params["binding_id"], WORKSPACE)
        if binding is None:
            raise NotFound("there is no such binding", hint="`bollard bindings` lists them")
        return JsonAnswer(self._shown(binding))

    async def put(self, request: Request) -> Response:
        body = named_by_path(await read_body(request), "binding_id", request.path_params["binding_id"])
        shown = self._shown(await self._keeper.save_binding(body, WORKSPACE, ADMIN))
        return JsonAnswer(shown, status_code=201 if shown["revision"] == 1 else 200)

    async def delete(self, request: Request) -> Response:
        binding_id: str = request.path_params["binding_id"]
        revision = whole_number(request, "revision", "send the revision you read")
        await self._keeper.delete_binding(binding_id, WORKSPACE, ADMIN, revision)
        return JsonAnswer({"binding_id": binding_id, "deleted": True})

    def _shown(self, binding: Binding) -> JsonObject:
        revision = self._keeper.binding_revision(binding.binding_id, WORKSPACE)
        return {**binding_to_wire(binding), "revision": revision}
