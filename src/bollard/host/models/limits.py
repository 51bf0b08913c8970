"""Limits of models, each with its unit."""

from typing import Final

MODELS_OF_WORKSPACE: Final = 256
"""Models that the people of one workspace may save."""
URL_CHARACTERS: Final = 2048
"""The address of a provider."""
NAME_CHARACTERS: Final = 256
"""A provider's own name for a model."""
HEADERS: Final = 16
"""Headers that every call of a model sends."""
HEADER_CHARACTERS: Final = 2048
"""One such header."""
EXTRA_ARGS_BYTES: Final = 16 * 1024
"""Arguments of every call of a model, as JSON."""
TOKENS_MAX: Final = 100_000_000
"""The largest context window, and the most tokens of an answer, that a model may say it has."""
PRICE_MAX: Final = 1_000_000.0
"""The price of a million tokens."""
SECONDS_MAX: Final = 3600.0
"""The longest of the waits for a provider."""
TRIES_MAX: Final = 10
"""How often a call may be made at most."""
AT_ONCE_MAX: Final = 10_000
"""Calls of one model that may be under way at once."""
PER_MINUTE_MAX: Final = 1_000_000_000
"""The largest rate of requests, and of tokens."""
WAITING_CALLS: Final = 256
"""Calls of one model that may wait for a place; more are refused."""
BACKENDS_OPEN: Final = 64
"""Providers' connections that are kept; the one that was used longest ago is closed first."""
KEYS_KEPT: Final = 4096
"""Keys that are remembered for the runs that were given them."""
CALL_ARTIFACTS: Final = 32
"""Artifacts in the messages of one call."""
CALL_ARTIFACT_BYTES: Final = 20 * 1024 * 1024
"""Bytes of all artifacts in the messages of one call."""
CALL_TEXTS: Final = 2048
"""Texts of one call that embeds."""
TEST_S: Final = 60.0
"""Time that a test of a model may take."""


# Limits of the calls to providers, each with its unit. Apart from the host's others: only a model call needs them.


KIB: Final = 1024
MIB: Final = 1024 * KIB

REQUEST_BYTES: Final = 48 * MIB
"""One request to a provider, images and files in it."""
HEAD_BYTES: Final = 64 * KIB
"""The head of one answer."""
ANSWER_BYTES: Final = 32 * MIB
"""The body of one answer, whole or streamed."""
EVENT_BYTES: Final = 8 * MIB
"""One event of a stream: the last one of a Responses stream holds the whole answer."""
REFUSAL_BYTES: Final = 64 * KIB
"""What is read of an answer that is an error."""
EXCERPT_CHARACTERS: Final = 300
"""What is shown of a provider's own words."""
ADDRESSES: Final = 8
"""Addresses of one name that are tried."""
WHOLE_IDLES: Final = 4
"""Silences (`idle_s`) that a whole answer may take beyond its first token: all is written before any of it comes."""
RETRY_S: Final = 0.5
"""Wait before the second try; doubled with each further one."""
RETRY_MAX_S: Final = 20.0
"""The longest wait before another try. A provider that wants more is not asked again: the caller is told."""
RETRY_AFTER_MAX_S: Final = 86_400.0
"""The largest `retry_after_s` that is passed on."""
TOOL_CALLS: Final = 256
"""Tool calls in one answer."""
EMBED_BATCH_TEXTS: Final = 32
"""Texts of one embedding request."""
EMBED_BATCH_CHARACTERS: Final = 128 * KIB
"""Characters of one embedding request, unless one text alone has more."""
EMBED_DIMENSIONS: Final = 16_384
"""Dimensions of one vector."""
ANTHROPIC_MAX_TOKENS: Final = 4096
"""Tokens of an answer where nobody said a number and the format wants one."""
THINKING_TOKENS: Final = {"low": 2048, "medium": 8192, "high": 24_576, "xhigh": 32_768}
"""What an effort is in tokens, for a format that counts them."""
THINKING_MIN_TOKENS: Final = 1024
"""The fewest tokens that may be set apart for thinking."""
