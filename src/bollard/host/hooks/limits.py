"""Limits of incoming webhooks."""

from typing import Final

from bollard.protocol.limits import KIB, MIB

HOOKS_OF_WORKSPACE: Final = 100  # routes of one workspace
HOOK_BYTES: Final = 1 * MIB  # default for the body of one request; also what an unknown route reads before its refusal
HOOK_BYTES_MAX: Final = 25 * MIB  # the largest body that a route may allow: that of GitHub
HOOK_REQUESTS_PER_MINUTE: Final = 600  # default of one route; the burst is one sixth of it
HOOK_REQUESTS_PER_MINUTE_MAX: Final = 60_000
HOOK_TOLERANCE_S: Final = 300  # default for the distance between the time of a signed request and the host's own
HOOK_TOLERANCE_MAX_S: Final = 3600
HOOK_WAIT_S: Final = 10  # default for the time that a request waits for the answer of its run
HOOK_WAIT_MAX_S: Final = 120
HOOK_WAITS_AT_ONCE: Final = 32  # requests of one route that wait for an answer; the others get 202 at once
HOOK_ANSWER_CHARACTERS: Final = 4096  # the body of a fixed answer
HOOK_DELIVERIES: Final = 50  # last accepted requests of one route that are listed, and as many refused ones
HOOK_TOPICS: Final = 100  # topics that a route accepts
HOOK_SECRET_MIN: Final = 16  # characters of the shortest secret
HOOK_SECRET_MAX: Final = 256  # characters of the longest secret
SIGNATURES: Final = 16  # signatures of one request; a sender that rotates its secret sends two
TEMPLATE_CHARACTERS: Final = 4096  # one template
TEMPLATE_PLACEHOLDERS: Final = 64  # placeholders of one template
TEMPLATE_DATA_FIELDS: Final = 64  # templates that make the data of an event
FORM_FIELDS: Final = 1000  # fields of one form
NAME_CHARACTERS: Final = 256  # a rendered id; a longer one is cut and gets its digest
DATA_VALUE_CHARACTERS: Final = 64 * KIB  # a rendered text in the data of an event
