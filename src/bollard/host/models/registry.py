"""The models of every workspace: saved models, models of the environment, the built-in model, and the alias
`default`."""

import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from bollard.host.egress.client import EgressClient
from bollard.host.egress.destination import Destination
from bollard.host.errors import Conflict, EgressDenied, InvalidRequest, SettingsError, caused_by
from bollard.host.log.saved_resources import JointChange, Repository, ResourceKind, Saved, SavedChanges
from bollard.host.models.limits import MODELS_OF_WORKSPACE
from bollard.host.models.presets import presets
from bollard.host.models.specs import SavedModel, check_url
from bollard.protocol import JsonObject

# --- models of the environment, read once at start ---


DRAFT: Final = "unsaved"
"""The id of an unsaved model in the result of its test."""
PRESETS: Final = "presets"
"""The address of the known providers, which no model may have."""


@dataclass(frozen=True, slots=True)
class EnvironmentModel:
    """A model with its key, which is stored nowhere."""

    spec: SavedModel
    key: str | None = field(default=None, repr=False)


def models_of_environment(environment: Mapping[str, str]) -> tuple[EnvironmentModel, ...]:
    """`OPENAI_BASE_URL` makes `openai`, `ANTHROPIC_API_KEY` makes `anthropic`. Raises `SettingsError`."""
    present = {name: value.strip() for name, value in environment.items() if value.strip()}
    found: list[EnvironmentModel] = []
    if "OPENAI_BASE_URL" in present:
        spec = SavedModel(
            model_id="openai",
            model_type="llm",
            style="openai-chat",
            base_url=_address("OPENAI_BASE_URL", present["OPENAI_BASE_URL"]),
            model=present.get("OPENAI_MODEL") or presets()["openai"].model or "",
            vision=True,
        )
        found.append(EnvironmentModel(spec, present.get("OPENAI_API_KEY")))
    if "ANTHROPIC_API_KEY" in present:
        known = presets()["anthropic"]
        spec = SavedModel(
            model_id="anthropic",
            model_type="llm",
            style="anthropic",
            base_url=_address("ANTHROPIC_BASE_URL", present.get("ANTHROPIC_BASE_URL", known.base_url)),
            model=present.get("ANTHROPIC_MODEL") or known.model or "",
            vision=True,
        )
        found.append(EnvironmentModel(spec, present["ANTHROPIC_API_KEY"]))
    return tuple(found)


def _address(name: str, url: str) -> str:
    try:
        check_url(url)
    except InvalidRequest as error:
        raise SettingsError(
            f"{name}: {error.message}", reason="model_address", hint=error.hint, field=name, **caused_by(error)
        ) from error
    return url.rstrip("/")


MODEL: Final = ResourceKind(kind="model", noun="model", listed_by="models list", limit=MODELS_OF_WORKSPACE)
DEFAULT: Final = "default"
"""The alias for the default model of a workspace."""
DEMO: Final = "demo"
Origin = Literal["saved", "environment", "builtin"]
_DEMO: Final = SavedModel(
    model_id=DEMO,
    model_type="llm",
    style="demo",
    model=DEMO,
    context_window=32_768,
    max_output_tokens=4096,
    at_once=1024,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """One model of a workspace, with its origin."""

    spec: SavedModel
    origin: Origin
    revision: int = 0
    """The revision of the saved model; 0 for other models."""
    key: str | None = field(default=None, repr=False)
    """The key of a model of the environment, or of an unsaved one."""
    alias_of: str | None = None

    @property
    def model_id(self) -> str:
        return self.spec.model_id


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingDefault:
    """A workspace in which `default` means nothing."""

    workspace: str
    model: str
    """The `default_model` of the settings, which the workspace lacks; empty without that setting."""
    choice: str
    """A model of the workspace that could become its default; empty if there is none."""

    @property
    def sentence(self) -> str:
        return f"the workspace {self.workspace} has no default model"

    @property
    def command(self) -> str:
        """The command that adds or chooses the model."""
        added = f"add {self.model} --preset NAME" if self.model else "add --preset NAME"
        return f"BOLLARD_WORKSPACE={self.workspace} bollard models {f'default {self.choice}' if self.choice else added}"

    @property
    def hint(self) -> str:
        return f"run `{self.command}`; the agent demo answers without a model"

    @property
    def details(self) -> dict[str, str]:
        """The values of the sentence and the hint."""
        return {"workspace": self.workspace, "command": self.command}


def _is_real(model: SavedModel) -> bool:
    """Whether a model can be the default one of a workspace."""
    return model.style != "demo" and model.served_type == "llm"


class _SavedModels(Repository[SavedModel]):
    """The saved models."""

    def __init__(self, changes: SavedChanges, changed: Callable[[str, str], None]) -> None:
        super().__init__(MODEL, changes, lambda body, _: SavedModel.read(body), SavedModel.to_wire)
        self._listener = changed
        self.revision = 0
        self.real_models = 0
        """Chat models of all workspaces that are not scripted."""

    async def save(
        self, spec: SavedModel, workspace: str, *, by: str, edited: int | None, lacks_default: Callable[[], bool]
    ) -> Saved[SavedModel]:
        """A new chat model becomes the default of its workspace where `lacks_default`. The model that was the default
        loses its mark in the same commit."""

        def make(before: Saved[SavedModel] | None) -> SavedModel:
            wanted = spec.default
            if wanted is None and before is not None:
                wanted = before.value.default
            elif wanted is None:
                wanted = _is_real(spec) and lacks_default()
            return spec.model_copy(update={"default": wanted or None})

        def unmark_others(saved: SavedModel) -> JointChange:
            others = [each for each in self.all(workspace) if each.value.default and each.id != spec.model_id]
            joint = JointChange()
            for each in others if saved.default else ():
                unmarked = each.value.model_copy(update={"default": None})
                joint += self._joining(workspace, each.id, unmarked, by)
            return joint

        return await self._save(workspace, spec.model_id, make, by=by, edited=edited, along=unmark_others)

    def default(self, workspace: str) -> Saved[SavedModel] | None:
        """The saved model that the workspace chose as its default."""
        return next((saved for saved in self.all(workspace) if saved.value.default), None)

    def changed(self, before: Saved[SavedModel] | None, after: Saved[SavedModel] | None) -> None:
        self.revision += 1
        self.real_models += (after is not None and _is_real(after.value)) - (
            before is not None and _is_real(before.value)
        )
        either = after or before
        if either is not None:
            self._listener(either.workspace, either.id)


class ModelRegistry:
    """The models of every workspace: saved, of the environment, built in, and the alias `default`."""

    def __init__(
        self,
        changes: SavedChanges,
        *,
        environment: Iterable[EnvironmentModel] = (),
        default_model: str = "",
        egress: EgressClient | None = None,
        changed: Callable[[str, str], None] = lambda _workspace, _model: None,
    ) -> None:
        """`egress` decides which addresses providers may have. `changed` is called with the workspace and the id of
        each changed model."""
        self._fixed: dict[str, RegisteredModel] = {DEMO: RegisteredModel(spec=_DEMO, origin="builtin")}
        for each in environment:
            self._fixed[each.spec.model_id] = RegisteredModel(spec=each.spec, origin="environment", key=each.key)
        self._drafts: dict[tuple[str, str], RegisteredModel] = {}
        """Unsaved models while they are tested. They are in no list."""
        self._default = default_model
        self._egress = egress or EgressClient()
        self._saved = _SavedModels(changes, changed)
        self.load: Final = self._saved.load

    @property
    def revision(self) -> int:
        """Grows with every change."""
        return self._saved.revision

    def all(self, workspace: str) -> list[RegisteredModel]:
        """The models by id, without the alias."""
        found = {saved.id: _known(saved) for saved in self._saved.all(workspace)} | self._fixed
        return [found[model_id] for model_id in sorted(found)]

    def find(self, workspace: str, model_id: str) -> RegisteredModel | None:
        """The model with this id; for `default` the model behind it, under that id."""
        if model_id == DEFAULT:
            meant = self.default(workspace)
            return replace(meant, spec=meant.spec.model_copy(update={"model_id": DEFAULT}), alias_of=meant.model_id)
        if (fixed := self._fixed.get(model_id) or self._drafts.get((workspace, model_id))) is not None:
            return fixed
        saved = self._saved.find(workspace, model_id)
        return None if saved is None else _known(saved)

    def get(self, workspace: str, model_id: str) -> RegisteredModel:
        """Raises `NotFound`."""
        found = self.find(workspace, model_id)
        if found is None:
            raise MODEL.missing()
        return found

    def default(self, workspace: str) -> RegisteredModel:
        """The model behind `default`: that of the settings, else the choice of the workspace, else that of the
        environment, else the built-in one, which answers only if `missing_default` is `None`."""
        named = self.find(workspace, self._default) if self._default not in ("", DEFAULT) else None
        if named is not None:
            return named
        if (chosen := self._saved.default(workspace)) is not None:
            return _known(chosen)
        of_environment = [each for each in self._fixed.values() if each.origin == "environment"]
        return of_environment[0] if of_environment else self._fixed[DEMO]

    def missing_default(self, workspace: str) -> MissingDefault | None:
        """Why nothing is behind `default`. `None` if the workspace has a default model, or if the host has no real
        model at all: then the built-in one stands in (ADR 0112)."""
        named = "" if self._default == DEFAULT else self._default
        if named == DEMO or self.default(workspace).origin != "builtin" or not (named or self._saved.real_models):
            return None
        chat = [each.id for each in self._saved.all(workspace) if _is_real(each.value)]
        return MissingDefault(workspace=workspace, model=named, choice=chat[0] if chat and not named else "")

    def offered(self, workspace: str) -> Sequence[RegisteredModel]:
        """All models that an agent may name, with the alias."""
        return [self.get(workspace, DEFAULT), *self.all(workspace)]

    # --- changing ---

    async def save(
        self, body: JsonObject, workspace: str, model_id: str, *, by: str, edited: int | None
    ) -> RegisteredModel:
        """Save a model, or a new version of it."""
        self._refuse_fixed(model_id)
        spec = SavedModel.read({**body, "model_id": model_id})
        self._check_reach(spec)
        saved = await self._saved.save(
            spec, workspace, by=by, edited=edited, lacks_default=lambda: self.default(workspace).model_id == DEMO
        )
        return _known(saved)

    @contextmanager
    def draft(self, body: JsonObject, workspace: str, key: str | None) -> Generator[str]:
        """An unsaved model with a key that is stored nowhere, under an id of its own."""
        model_id = f"{DRAFT}-{secrets.token_hex(8)}"
        spec = SavedModel.read({**body, "model_id": model_id})
        self._check_reach(spec)
        self._drafts[workspace, model_id] = RegisteredModel(spec=spec, origin="saved", key=key)
        try:
            yield model_id
        finally:
            del self._drafts[workspace, model_id]

    async def delete(self, workspace: str, model_id: str, *, by: str, edited: int | None) -> None:
        self._refuse_fixed(model_id)
        await self._saved.delete(workspace, model_id, by=by, edited=edited)

    def _check_reach(self, spec: SavedModel) -> None:
        """Refuse an address that the egress rules forbid. A host name is checked with each connection."""
        if spec.style == "demo":
            return
        spec.check_proxy(self._egress)
        place = Destination.of(spec.base_url)
        try:
            self._egress.check_host(place)
        except EgressDenied as error:
            is_inside = error.details["reason"] == "address_denied"
            raise InvalidRequest(
                f"model.base_url: {error.message}",
                reason="model_url_denied" if is_inside else "model_base_url_invalid",
                hint=f"{error.hint}: BOLLARD_EGRESS_ALLOW={place.authority}" if is_inside else error.hint,
                field="model.base_url",
                **caused_by(error),
                address=place.authority,
            ) from error

    def _refuse_fixed(self, model_id: str) -> None:
        if model_id == DEFAULT:
            raise Conflict(
                "default is an alias for another model",
                reason="model_alias",
                hint="`bollard models default MODEL` chooses the default model",
            )
        if model_id == PRESETS:
            raise Conflict(
                f"a model cannot be named {model_id}: the list of providers has this address",
                reason="model_reserved",
                hint="save your model under another name",
                model=model_id,
            )
        fixed = self._fixed.get(model_id)
        if fixed is not None:
            problem = (
                f"the model {model_id} comes with the host and cannot be changed"
                if fixed.origin == "builtin"
                else f"the model {model_id} comes from the environment of the host and cannot be changed"
            )
            raise Conflict(
                problem, reason=f"model_{fixed.origin}", hint="save your model under another name", model=model_id
            )


def _known(saved: Saved[SavedModel]) -> RegisteredModel:
    return RegisteredModel(spec=saved.value, origin="saved", revision=saved.revision)
