"""Facts about this API that schemathesis cannot know: an existing agent, and the upload of an archive."""

from typing import Any

import schemathesis

ID_CHARACTERS = 256
NOBODY = "http://127.0.0.1:1/v1"


DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@schemathesis.serializer("application/zip", "application/pdf", DOCX)
def archive(ctx: Any, value: Any) -> dict[str, Any]:
    """Never a valid archive. Valid archives and documents are sent by the tests of plugins and of knowledge."""
    return {"data": value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")}


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """A run of an existing agent, instead of a random one. A value that is not a name stays unchanged. No MCP server is
    enabled: random text must not be started as a program. Every model is on loopback, where no provider answers."""
    saves_server = context.operation.label == "PUT /api/v1/mcp-servers/{server_id}"
    if saves_server and isinstance(body, dict) and body.get("enabled", True) is True:
        return {**body, "enabled": False}
    if context.operation.label == "PUT /api/v1/models/{model_id}" and isinstance(body, dict) and "base_url" in body:
        return {**body, "base_url": NOBODY} if isinstance(body["base_url"], str) else body
    if context.operation.label == "POST /api/v1/runs" and isinstance(body, dict):
        name = body.get("agent")
        if isinstance(name, str) and 0 < len(name) <= ID_CHARACTERS:
            return {**body, "agent": "parrot"}
    return body
