"""Where catalogues come from: the package of the host, and a URL of the settings.

Both give the archive of a plugin, the files of a skill and README texts. Nothing here installs anything.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urljoin, urlsplit

import msgspec

from bollard.host.catalogue.index import CatalogueFile, CatalogueIndex, CatalogueItem, open_index, read_index
from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.egress.destination import EgressRequest
from bollard.host.errors import CatalogueUnavailable, HostError, InvalidRequest, NotFound, SettingsError, caused_by
from bollard.host.limits import (
    CATALOGUE_BYTES,
    CATALOGUE_FETCHES,
    CATALOGUE_FRESH_S,
    CATALOGUE_README_BYTES,
    CATALOGUE_RETRY_S,
    EGRESS_BODY_BYTES,
    SKILL_BYTES,
)
from bollard.host.plugins.description import Description
from bollard.host.plugins.packing import zip_of_plugin
from bollard.host.settings import Settings
from bollard.protocol import JsonObject
from bollard.trust.keys import VerifyKey
from bollard.wire.errors import FrameError
from bollard.wire.plugin_files import plugin_files
from bollard.wire.strict_json import decode

_LATER: Final = "try again later; its publisher may be changing it"
_PUBLISHER: Final = "tell its publisher"
_KEY_BYTES: Final = 32


class SourceState(msgspec.Struct, frozen=True, kw_only=True):
    """The index of a source, and why it is not the newest."""

    index: CatalogueIndex | None
    problem: HostError | None = None


class CatalogueSource(Protocol):
    """One catalogue. Every method but `state` raises `CatalogueUnavailable`."""

    name: str
    address: str
    """Its URL; empty for the bundled catalogue."""

    async def state(self) -> SourceState: ...

    async def readme(self, file: CatalogueFile) -> str: ...

    async def archive(self, item: CatalogueItem) -> bytes:
        """A plugin as a zip."""
        ...

    async def skill(self, item: CatalogueItem) -> JsonObject:
        """The body that saves a skill."""
        ...


class BundledSource:
    """The catalogue inside the package, or in the repository: its files are beside it, in `plugins` and `examples`."""

    name = "bundled"
    address = ""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._index: CatalogueIndex | None = None

    async def state(self) -> SourceState:
        if self._index is None:
            data = await asyncio.to_thread((self._root / "catalogue" / "index.json").read_bytes)
            self._index = read_index(data)
        return SourceState(index=self._index)

    async def readme(self, file: CatalogueFile) -> str:
        return await asyncio.to_thread((self._root / file.path).read_text, encoding="utf-8")

    async def archive(self, item: CatalogueItem) -> bytes:
        return await asyncio.to_thread(zip_of_plugin, self._path(item))

    async def skill(self, item: CatalogueItem) -> JsonObject:
        return await asyncio.to_thread(_skill_in, self._path(item))

    def _path(self, item: CatalogueItem) -> Path:
        return self._root / _content(item).path


class RemoteSource:
    """A signed catalogue at a URL of the settings. Requests obey the egress rules."""

    name = "remote"

    def __init__(self, url: str, key: VerifyKey, egress: EgressClient, clock: Clock) -> None:
        self.address = url
        self._key = key
        self._egress = egress
        self._clock = clock
        self._state = SourceState(index=None)
        self._fresh_until = clock.monotonic()
        self._refreshing = asyncio.Lock()
        self._fetches = asyncio.Semaphore(CATALOGUE_FETCHES)

    async def state(self) -> SourceState:
        """The index as it was fetched in the last minutes. After a failure an earlier index stays in use."""
        async with self._refreshing:
            if self._clock.monotonic() >= self._fresh_until:
                self._state = await self._refresh(self._state.index)
                fresh_s = CATALOGUE_FRESH_S if self._state.problem is None else CATALOGUE_RETRY_S
                self._fresh_until = self._clock.monotonic() + fresh_s
            return self._state

    async def readme(self, file: CatalogueFile) -> str:
        data = await self._file(file, CATALOGUE_README_BYTES)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _unusable(file, error) from error

    async def archive(self, item: CatalogueItem) -> bytes:
        return await self._file(_content(item), EGRESS_BODY_BYTES)

    async def skill(self, item: CatalogueItem) -> JsonObject:
        file = _content(item)
        try:
            body = decode(await self._file(file, 2 * SKILL_BYTES), frame_bytes=2 * SKILL_BYTES)
        except FrameError as error:
            raise _unusable(file, error) from error
        if not isinstance(body, dict):
            raise _unusable(file, ValueError("it is not a JSON object"))
        return {"files": body.get("files")}

    async def _refresh(self, before: CatalogueIndex | None) -> SourceState:
        try:
            index = open_index(await self._fetch(self.address, CATALOGUE_BYTES), self._key)
        except CatalogueUnavailable as error:
            return SourceState(index=before, problem=error)
        if before is not None and index.issued_at < before.issued_at:
            message = "the index of the catalogue is older than the one that was fetched before"
            return SourceState(index=before, problem=CatalogueUnavailable(message, reason="older", hint=_LATER))
        return SourceState(index=index)

    async def _file(self, file: CatalogueFile, most: int) -> bytes:
        data = await self._fetch(urljoin(self.address, file.path), most)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise CatalogueUnavailable(
                f"the file {file.path} of the catalogue has another digest than its index states",
                reason="digest",
                hint=_LATER,
                file=file.path,
            )
        return data

    async def _fetch(self, url: str, most: int) -> bytes:
        file = urlsplit(url).path.rpartition("/")[2]
        try:
            async with self._fetches:
                response = await self._egress.fetch(EgressRequest(url=url, max_bytes=most))
        except HostError as error:
            raise CatalogueUnavailable(
                f"the catalogue cannot be fetched: {error.message}", reason="fetch", hint=error.hint, **caused_by(error)
            ) from error
        if response.status != 200:
            raise CatalogueUnavailable(
                f"the server of the catalogue answers {response.status} for {file}",
                reason="status",
                hint=_PUBLISHER,
                file=file,
                status=response.status,
            )
        if response.truncated:
            raise CatalogueUnavailable(
                f"the file {file} of the catalogue is larger than {most} bytes",
                reason="size",
                hint=_PUBLISHER,
                file=file,
                limit=most,
            )
        return response.body


class Catalogue:
    """Every catalogue of a host."""

    def __init__(self, sources: Sequence[CatalogueSource]) -> None:
        self.sources = sources

    async def find(self, ref: str) -> tuple[CatalogueSource, CatalogueItem]:
        """The item with a reference such as `bundled/echo`. Raises `NotFound`, `CatalogueUnavailable`."""
        name, _, item_id = ref.partition("/")
        source = next((each for each in self.sources if each.name == name), None)
        if source is not None:
            state = await source.state()
            if state.index is None and state.problem is not None:
                raise state.problem
            if state.index is not None and (item := state.index.find(item_id)) is not None:
                return source, item
        raise NotFound(
            "there is no such item in the catalogue",
            reason="catalogue_item",
            hint="`bollard catalogue list` names them",
            item=ref,
        )

    async def plugin(self, ref: str) -> tuple[CatalogueItem, bytes]:
        """A plugin and its archive. Raises `NotFound`, `CatalogueUnavailable`, `InvalidRequest`."""
        source, item = await self.find(ref)
        if item.kind != "plugin":
            raise InvalidRequest(
                f"{ref} is not a plugin",
                reason="catalogue_not_plugin",
                hint="`bollard catalogue install` installs every kind",
                field="catalogue",
                item=ref,
            )
        return item, await source.archive(item)


def check_plugin(item: CatalogueItem, described: Description) -> None:
    """Refuse an archive with another plugin or version than its index states. Raises `CatalogueUnavailable`."""
    stated, found = f"{item.name} {item.version}", f"{described.plugin_id} {described.version}"
    if stated != found:
        raise CatalogueUnavailable(
            f"the catalogue states {stated}, and its file contains {found}",
            reason="other_plugin",
            hint=_PUBLISHER,
            stated=stated,
            found=found,
        )


def catalogue_of(settings: Settings, root: Path, egress: EgressClient, clock: Clock) -> Catalogue:
    """The bundled catalogue, and that of the settings. Raises `SettingsError`."""
    bundled = BundledSource(root)
    if not settings.catalogue_url:
        return Catalogue([bundled])
    if urlsplit(settings.catalogue_url).scheme not in ("http", "https"):
        hint = "use a URL like https://example.org/catalogue/index.json"
        raise _wrong_setting("catalogue_url", "is not a URL", "catalogue_not_url", hint)
    try:
        public = bytes.fromhex(settings.catalogue_key)
    except ValueError:
        public = b""
    if len(public) != _KEY_BYTES:
        hint = "set it to the 64 hexadecimal digits that `bollard catalogue sign` printed"
        raise _wrong_setting("catalogue_key", "is not a public key", "catalogue_key", hint)
    return Catalogue([bundled, RemoteSource(settings.catalogue_url, VerifyKey(public), egress, clock)])


def _wrong_setting(field: str, problem: str, reason: str, hint: str) -> SettingsError:
    return SettingsError(f"{field} {problem}", reason=reason, hint=hint, field=field)


def _content(item: CatalogueItem) -> CatalogueFile:
    if item.content is None:
        raise NotFound(
            f"{item.item_id} has no file to install",
            reason="catalogue_no_file",
            hint="an MCP server is saved with the body in `server`",
            item=item.item_id,
        )
    return item.content


def _unusable(file: CatalogueFile, error: Exception) -> CatalogueUnavailable:
    return CatalogueUnavailable(
        f"the file {file.path} of the catalogue cannot be used: {error}",
        reason="file",
        hint=_PUBLISHER,
        file=file.path,
        **caused_by(error),
    )


def _skill_in(folder: Path) -> JsonObject:
    files = sorted(plugin_files(folder))
    return {"files": [{"path": name, "text": path.read_text(encoding="utf-8")} for name, path in files]}
