"""What the host says when it cannot go on, as the command line says it: in the reader's language where it is known."""

from bollard.cli.errors import HostProblem, UsageProblem
from bollard.host.errors import HostError

__all__ = ["problem_of"]


def problem_of(error: HostError) -> HostProblem | UsageProblem:
    """What the host says as the command line says it."""
    field = error.details.get("field")
    match error.code, field:
        case "settings", "host" if "exposed" in error.details:
            return UsageProblem("error.public", "hint.public")
        case "settings", _:
            return UsageProblem("error.settings", "hint.host", detail=error.message, advice=error.hint)
        case "storage_unavailable", "database":
            holder = {name: error.details.get(name) for name in ("session", "address")}
            return UsageProblem("error.database_busy", "hint.database_busy", **holder)
        case "schema_too_new", _:
            return HostProblem("error.schema_new", "hint.schema_new", detail=error.message)
        case "log_broken", _:
            name = error.details.get("name")
            return HostProblem("error.log_broken", "hint.log_broken", detail=error.message, name=name)
        case _:
            return HostProblem("error.host", "hint.host", detail=error.message, advice=error.hint)
