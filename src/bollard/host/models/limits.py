"""Limits of models, each with its unit."""

from typing import Final

MODELS_OF_WORKSPACE: Final = 256
"""Saved models of one workspace."""
URL_CHARACTERS: Final = 2048
"""The address of a provider."""
NAME_CHARACTERS: Final = 256
"""The name of a model at its provider."""
HEADERS: Final = 16
"""Headers that every call of a model sends."""
HEADER_CHARACTERS: Final = 2048
"""One such header."""
EXTRA_ARGS_BYTES: Final = 16 * 1024
"""Arguments of every call of a model, as JSON."""
TOKENS_MAX: Final = 100_000_000
"""The largest context window, and the largest answer."""
PRICE_MAX: Final = 1_000_000.0
"""The price of a million tokens."""
SECONDS_MAX: Final = 3600.0
"""The longest timeout."""
TRIES_MAX: Final = 10
"""Attempts of one call."""
AT_ONCE_MAX: Final = 10_000
"""Concurrent calls of one model."""
PER_MINUTE_MAX: Final = 1_000_000_000
"""The largest rate of requests, and of tokens."""
WAITING_CALLS: Final = 256
"""Calls of one model that may wait; more are refused."""
BACKENDS_OPEN: Final = 64
"""Open backends; the least recently used one is closed first."""
KEYS_KEPT: Final = 4096
"""Keys cached for the runs that use them."""
CALL_ARTIFACTS: Final = 32
"""Artifacts in the messages of one call."""
CALL_ARTIFACT_BYTES: Final = 20 * 1024 * 1024
"""Bytes of all artifacts in the messages of one call."""
CALL_TEXTS: Final = 2048
"""Texts of one embedding call."""
TEST_S: Final = 60.0
"""Timeout of the test of a model."""


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
"""The part of an error answer that is read."""
EXCERPT_CHARACTERS: Final = 300
"""The part of a provider's message that is shown."""
ADDRESSES: Final = 8
"""Addresses of one name that are tried."""
WHOLE_IDLES: Final = 4
"""Multiples of `idle_s` that an answer without streaming may take after its first token: it arrives when complete."""
RETRY_S: Final = 0.5
"""Wait before the second try; doubled with each further one."""
RETRY_MAX_S: Final = 20.0
"""The longest wait before a retry. If a provider asks for more, the call fails."""
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
"""Tokens of an answer, if the call states no number and the format requires one."""
THINKING_TOKENS: Final = {"low": 2048, "medium": 8192, "high": 24_576, "xhigh": 32_768}
"""Reasoning efforts in tokens, for a format that counts tokens."""
THINKING_MIN_TOKENS: Final = 1024
"""The smallest thinking budget."""
KEY_CHARACTERS: Final = 8192
"""The key of an unsaved model in a test."""
