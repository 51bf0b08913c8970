"""What the host says when it cannot go on, as the command line says it: in the reader's language where it is known."""

from bollard.cli.errors import HostProblem, UsageProblem
from bollard.host.errors import HostError

__all__ = ["problem_of"]


def problem_of(error: HostError) -> HostProblem | UsageProblem:
    """What the host says as the command line says it."""
    field = error.details.get("field")
    match error.code, field:
        case "settings", "host":
            return UsageProblem("error.public", "hint.public")
        case "settings", _:
            return UsageProblem("error.settings", "hint.host", detail=error.message, advice=error.hint)
        case "schema_too_new", _:
            return HostProblem("error.schema_new", "hint.schema_new", detail=error.message)
        case _:
            return HostProblem("error.host", "hint.host", detail=error.message, advice=error.hint)
