"""What the command line says in English about models."""

from typing import Final

__all__ = ["MODELS"]

MODELS: Final = {
    # --- help ---
    "models": "List the models of a host, add, try and remove them.\n\nWithout a command it lists them.",
    "models.list": "List the models, those of the environment and the built-in one among them.",
    "models.show": "Show one model, without its key.",
    "models.add": "Add a model, or save it anew: where it is, what the provider calls it, and which secret is its key."
    "\n\nNo agent may ask it by that: its configuration or its policy names the models that it has.",
    "models.test": "Ask a model one tiny question, and say what came of it.\n\nIt is a real call, which may cost a few "
    "tokens.",
    "models.remove": "Remove a model. Agents that name it cannot ask it from then on.",
    "models.id": "The name of the model on this host; default is the one that stands for it.",
    "models.style": "The format that its endpoint speaks.",
    "models.base_url": "The address with the version in it, such as https://api.openai.com/v1.",
    "models.model": "The provider's own name for the model.",
    "models.secret": "The secret that holds the key, set before with `bollard secrets set NAME`.",
    "models.header": "A header of every call; again for another one.",
    "models.context_window": "Tokens that fit into one call.",
    "models.max_output": "Tokens of the longest answer.",
    "models.vision": "It looks at images.",
    "models.price_input": "What a million tokens cost that are sent.",
    "models.price_output": "What a million tokens cost that it says.",
    "models.price_cached": "What a million tokens cost that are sent and were in the provider's cache.",
    "models.currency": "The currency of the prices.",
    "models.at_once": "Calls that may be under way at once.",
    "models.per_minute": "Calls that may be made in a minute.",
    # --- what is shown ---
    "models.added": "model {model} saved; try it: bollard models test {model}",
    "models.removed": "model {model} removed",
    "models.head": "{model}: {type}, {style}",
    "models.alias": "stands for {model}",
    "models.asks": "asks {name} at {url}",
    "models.key": "its key is the secret {secret}",
    "models.window": "a context window of {tokens} tokens",
    "models.price": "a million tokens: {input} sent, {output} said, in {currency}",
    "models.origin": "from {origin}",
    "models.origin.saved": "saved",
    "models.origin.environment": "the environment",
    "models.origin.builtin": "built in",
    "models.default": "default",
    "models.answered": "{model} answered within {ms} ms",
    "models.words": "it said: {words}",
    "models.dimensions": "its vectors have {count} dimensions",
    "models.failed": "{model} did not answer ({reason}): {problem}",
    "models.hint": "try this: {hint}",
    "models.column.id": "Model",
    "models.column.type": "Type",
    "models.column.style": "Style",
    "models.column.model": "At the provider",
    "models.column.origin": "From",
    # --- what can go wrong ---
    "error.models_pair": "--header {word} is not NAME=VALUE",
    "hint.models_pair": "write --header NAME=VALUE; the key is no header, name its secret with --secret",
}
