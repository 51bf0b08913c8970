"""Which arguments a call carries to a provider. Pure.

A run says how it wants to be answered, and nothing else: which model, whether tools of the provider's own reach
outside, and what is kept there is for an operator to say. So an argument is known here, or an operator has opened it
by naming it in the model's own arguments.
"""

from typing import Final

from bollard.host.errors import InvalidRequest
from bollard.host.models.boundary import ModelCall, ModelSpec
from bollard.host.models.failures import failed
from bollard.protocol import JsonObject

__all__ = ["arguments_of", "check_arguments"]

_KNOWN: Final = frozenset(
    {
        "chat_template_kwargs",
        "enable_thinking",
        "frequency_penalty",
        "logit_bias",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "min_p",
        "output_config",
        "parallel_tool_calls",
        "presence_penalty",
        "prompt_cache_key",
        "reasoning",
        "reasoning_effort",
        "repetition_penalty",
        "response_format",
        "safety_identifier",
        "seed",
        "stop",
        "stop_sequences",
        "temperature",
        "text",
        "thinking",
        "thinking_budget",
        "tool_choice",
        "top_k",
        "top_p",
        "user",
        "verbosity",
    }
)
_OURS: Final = frozenset({"documents", "input", "messages", "model", "n", "query", "stream", "system", "tools"})
"""What a call itself is made of."""
_LENGTHS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def check_arguments(spec: ModelSpec) -> None:
    """Raises `InvalidRequest` for arguments of a model that no call could keep to."""
    if found := sorted(_OURS & spec.extra_args.keys()):
        raise InvalidRequest(
            f"the arguments of the model {spec.model_id} have {found[0]}, which each call has its own of",
            hint=f"leave {found[0]} out of extra_args",
            field="extra_args",
        )


def arguments_of(spec: ModelSpec, call: ModelCall | None = None) -> JsonObject:
    """The model's arguments and those of the call, which win. `null` means: leave it out. Raises `ModelFailed`.

    However the length of an answer is named, it comes back as `max_tokens`, and never beyond what the model can do.
    """
    wanted = call.extra_args if call is not None else {}
    for name in wanted:
        if name in _OURS or (name not in _KNOWN and name not in spec.extra_args):
            raise failed(
                "invalid_request",
                f"the argument {name[:80]!r} is not passed on",
                hint="an operator opens it by naming it in the model's extra_args",
            )
    length = _length(wanted) or _length(spec.extra_args)
    merged = {name: value for name, value in {**spec.extra_args, **wanted}.items() if name not in _LENGTHS}
    # A null of the operator's own stays visible to the formats: it takes out what they would add by themselves.
    found = {name: value for name, value in merged.items() if value is not None or name not in wanted}
    if length is not None:
        found["max_tokens"] = min(length, spec.max_output_tokens or length)
    return found


def _length(arguments: JsonObject) -> int | None:
    for name in _LENGTHS:
        value = arguments.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        if value is not None:
            raise failed("invalid_request", f"{name} is no positive whole number", hint="leave it out, or send one")
    return None
