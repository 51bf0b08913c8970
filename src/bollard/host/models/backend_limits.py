"""Limits of the calls to providers, each with its unit. Apart from the host's others: only a model call needs them."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

REQUEST_BYTES: Final = 48 * MIB
"""One request to a provider, images and files in it."""
HEAD_BYTES: Final = 64 * KIB
"""The head of one answer."""
ANSWER_BYTES: Final = 32 * MIB
"""The body of one answer, whole or streamed."""
FRAMING: Final = 8
"""Bytes on the wire for each of the body, at most: one that is sent alone needs six."""
EVENT_BYTES: Final = 8 * MIB
"""One event of a stream: the last one of a Responses stream holds the whole answer."""
REFUSAL_BYTES: Final = 64 * KIB
"""What is read of an answer that is an error."""
EXCERPT_CHARACTERS: Final = 300
"""What is shown of a provider's own words."""
KEPT_CONNECTIONS: Final = 16
"""Connections to one provider that wait for the next call; more are closed."""
KEPT_S: Final = 30.0
"""Time that a connection may wait for the next call."""
SETTLE_S: Final = 1.0
"""Time that the end of an answer may take once everything in it has come; then its connection is not kept."""
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
