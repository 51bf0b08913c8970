"""`bollard models add --preset`: adds a model of a known provider, asks for its key, and tests it."""

import getpass
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from secrets import token_hex
from typing import Any, Final

from bollard.cli.agents.model_lines import MODELS, default_lines, document_of, tried_lines
from bollard.cli.client.documents import SECRETS
from bollard.cli.errors import CliError, UsageProblem
from bollard.cli.options import given_values
from bollard.cli.shell import HostShell
from bollard.host.models.presets import RESOURCE, Preset

_TRIAL: Final = "_TRIAL_"
"""Between the name of a secret and a random number: the secret of a test."""


class PresetModel:
    """Adds one model of a known provider: saves it with its key, tests it, and takes it back if the test fails."""

    def __init__(self, shell: HostShell, name: str, preset: "Preset", model_id: str) -> None:
        self._shell = shell
        self._name = name
        self._preset = preset
        self._model_id = model_id

    def add(self, given: dict[str, Any], *, key_stdin: bool, keep: bool) -> int:
        """Add the model; `given` holds what the options say. Raises `UsageProblem` before anything is saved, and
        `HostProblem`."""
        shell, model_id = self._shell, self._model_id
        document = self._document(given)
        secrets = {secret["secret_name"] for secret in shell.all(SECRETS)}
        key = self._key(document, secrets, from_stdin=key_stdin) if key_stdin or "secret" not in given else None
        models = shell.all(MODELS)
        before = next((each for each in models if each["model_id"] == model_id), None)
        leftovers = _leftover_secrets(document.get("secret"), secrets, models, model_id)
        if before is not None and before.get("secret") in leftovers:
            before = {**before, "secret": document["secret"]}
        trial = document if key is None else {**document, "secret": _trial_secret(document["secret"], secrets)}
        new_secret: str | None = None
        saved = shell.put(MODELS.one(model_id), trial)
        try:
            if key is not None:
                shell.put(SECRETS.one(trial["secret"]), {"value": key})
                new_secret = trial["secret"]
            tried = shell.post(MODELS.one(model_id, "/test"))
            for line in () if shell.for_programs else self._outcome(tried):
                shell.print(line)
            kept = tried["ok"] or keep or (shell.has_person and shell.confirm("models.question"))
            if kept and trial != document:
                shell.put(SECRETS.one(document["secret"]), {"value": key})
                saved = shell.put(MODELS.one(model_id), document)
                shell.delete(SECRETS.one(trial["secret"]))
        except (CliError, KeyboardInterrupt):
            self._undo(before, new_secret)
            raise
        for leftover in leftovers:
            shell.delete(SECRETS.one(leftover))
        if kept:
            lines = [shell.text("models.kept", model=model_id), *default_lines(saved, shell.text)]
        else:
            self._undo(before, new_secret)
            lines = [shell.text("models.not_kept", model=model_id)]
        shell.show({"model": saved, "test": tried, "kept": kept}, lines)
        return 0 if tried["ok"] else 1

    def _document(self, given: dict[str, Any]) -> dict[str, Any]:
        shell, preset = self._shell, self._preset
        document = {"style": preset.style, "base_url": preset.base_url}
        document = document | given_values({"model": preset.model, "secret": preset.secret}) | given
        if RESOURCE in document["base_url"]:
            resource = self._ask("models.ask_resource") if shell.has_person else ""
            if not resource:
                raise UsageProblem("error.models_resource", "hint.models_resource", url=preset.base_url)
            document["base_url"] = preset.base_url.replace(RESOURCE, resource)
        if "model" not in document and shell.has_person:
            document["model"] = self._ask("models.ask_name")
        if not document.get("model"):
            raise UsageProblem("error.models_name", "hint.models_name", preset=self._name)
        if not shell.for_programs:
            shell.print(shell.text("models.asks", name=document["model"], url=document["base_url"]))
        return document

    def _ask(self, question: str) -> str:
        sys.stdout.write(f"{self._shell.text(question, provider=self._preset.label)}: ")
        sys.stdout.flush()
        return sys.stdin.readline().strip()

    def _key(self, document: dict[str, Any], secrets: set[str], *, from_stdin: bool) -> str | None:
        """The key to save; `None` if the provider needs none, or the secret is there already."""
        text, secret = self._shell.text, document.get("secret")
        if from_stdin:
            document.setdefault("secret", f"{self._name.upper()}_API_KEY")
            if not (key := sys.stdin.readline().strip()):
                raise UsageProblem("error.models_key_stdin", "hint.models_key", preset=self._name)
            return key
        if secret is None:
            return None
        if self._shell.has_person:
            question = "models.ask_known_key" if secret in secrets else "models.ask_key"
            if key := getpass.getpass(f"{text(question, provider=self._preset.label, secret=secret)}: ").strip():
                return key
        if secret not in secrets:
            raise UsageProblem("error.models_key", "hint.models_key", preset=self._name, secret=secret)
        return None

    def _outcome(self, tried: dict[str, Any]) -> Iterator[str]:
        yield from tried_lines(tried, self._shell.text)
        note = self._preset.note.get(self._shell.text.language)
        if note and tried.get("reason") == "unauthorized":
            yield self._shell.text("models.hint", hint=note)

    def _undo(self, before: dict[str, Any] | None, secret: str | None) -> None:
        """Bring back the model that was there before, or remove the new one, and remove the secret of the test."""
        if before is None:
            self._shell.delete(MODELS.one(self._model_id))
        else:
            document = {name: value for name, value in document_of(before).items() if name != "revision"}
            self._shell.put(MODELS.one(self._model_id), document)
        if secret is not None:
            self._shell.delete(SECRETS.one(secret))


def _trial_secret(secret: str, secrets: set[str]) -> str:
    """Where a key is saved for the test. A key that is there already stays until the new one is kept: it cannot be read
    back, and other models may use it."""
    return f"{secret}{_TRIAL}{token_hex(4).upper()}" if secret in secrets else secret


def _leftover_secrets(
    secret: str | None, secrets: set[str], models: Iterable[Mapping[str, Any]], model_id: str
) -> list[str]:
    """The secrets of tests that were killed: no other model uses them."""
    used = {each.get("secret") for each in models if each["model_id"] != model_id}
    trial = re.compile(rf"{re.escape(secret or '')}{_TRIAL}[0-9A-F]{{8}}")
    return [each for each in sorted(secrets - used) if trial.fullmatch(each)]
