"""What the command line says in English about secrets."""

from typing import Final

__all__ = ["SECRETS"]

SECRETS: Final = {
    "secrets": "Set, list and remove secrets.\n\nWithout a command it lists them. A value is never shown again: write "
    "secret:NAME where it is needed.",
    "secrets.list": "List the secrets: names, when they were set, when they were last used.",
    "secrets.set": "Set a secret, or give it another value.\n\nThe value comes from standard input, or is asked for on "
    "the terminal.",
    "secrets.remove": "Remove a secret. What refers to it cannot work from then on.",
    "secrets.name": "The name of the secret.",
    "secrets.ask": "Value",
    "secrets.saved": "secret {name} is set; write {reference} where it is needed",
    "secrets.short": "it is too short to be kept out of what runs say",
    "secrets.removed": "removed secret {name}",
    "secrets.none": "there are no secrets; `bollard secrets set NAME` sets one",
    "secrets.column.name": "Secret",
    "secrets.column.set": "Set",
    "secrets.column.used": "Last used",
    "secrets.column.state": "State",
    "secrets.never": "never",
    "secrets.readable": "ready",
    "secrets.unreadable": "its key is not here: set it again",
    "error.secret_empty": "there is no value",
    "hint.secret_empty": 'pipe it in: `printf %s "$VALUE" | bollard secrets set NAME`',
}
