"""Keeps the skills that a workspace has: their files on disk first, then the row that names them."""

import asyncio
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, NotFound, StorageFull, StorageUnavailable
from bollard.host.limits import SKILL_VERSIONS, SKILLS_OF_WORKSPACE
from bollard.host.log.saved_resources import Saved, SavedChanges, SavedResources
from bollard.host.skills.skill import KeptSkill, KeptVersion, SkillContent, kept_from_store, read_content
from bollard.host.store.store import Store
from bollard.trust import make_folder, sync_folder

# Where the files of skills lie: each content once for a workspace, under its digest, so that no name of a skill's file
# is ever a name on this disk. All calls block.


_INCOMING: Final = ".incoming"
_AGAIN: Final = "add the skill again: `bollard skills add FOLDER`"


class ContentFiles:
    """The folder `skills` of the data directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, workspace: str, contents: Iterable[bytes]) -> None:
        """Put each where it belongs, flushed. Raises `StorageFull`."""
        place = self._folder / workspace
        try:
            make_folder(place)
            for content in contents:
                target = place / hashlib.sha256(content).hexdigest()
                if not target.exists():
                    _write(place / f"{_INCOMING}-{secrets.token_hex(8)}", target, content)
            sync_folder(place)
        except OSError as error:
            raise StorageFull(f"the skill cannot be kept: {error.strerror}", hint="free some space") from error

    def read(self, workspace: str, sha256: str) -> bytes:
        """The content of this digest, and no other. Raises `StorageUnavailable`."""
        try:
            content = (self._folder / workspace / sha256).read_bytes()
        except OSError as error:
            raise StorageUnavailable(f"a file of the skill cannot be read: {error.strerror}", hint=_AGAIN) from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise StorageUnavailable("a file of the skill was changed on disk after it was taken", hint=_AGAIN)
        return content

    def sweep(self, workspace: str, wanted: Set[str]) -> None:
        """Remove what nothing refers to."""
        place = self._folder / workspace
        if place.is_dir():
            for path in place.iterdir():
                if path.name not in wanted:
                    path.unlink(missing_ok=True)

    def workspaces(self) -> list[str]:
        return [path.name for path in self._folder.iterdir() if path.is_dir()] if self._folder.is_dir() else []


def _write(aside: Path, target: Path, content: bytes) -> None:
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(target)
    finally:
        aside.unlink(missing_ok=True)


class SkillRepository:
    """One per host. Changes are made one after the other."""

    def __init__(self, changes: SavedChanges, files: ContentFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._changing = asyncio.Lock()
        self.revision = 0
        """Grows with each change."""
        self._shelf: SavedResources[KeptSkill] = SavedResources(
            "skill", changes=changes, read=kept_from_store, write=KeptSkill.to_wire, watch=self._changed
        )

    async def load(self, store: Store) -> None:
        """What is on disk; files that nothing names any more go."""
        await self._shelf.load(store)
        for workspace in await asyncio.to_thread(self._files.workspaces):
            await self._sweep(workspace)

    def all(self, workspace: str) -> list[Saved[KeptSkill]]:
        return self._shelf.all(workspace)

    def has(self, workspace: str, name: str) -> bool:
        return self._shelf.get(workspace, name) is not None

    def get(self, workspace: str, name: str) -> Saved[KeptSkill]:
        """Raises `NotFound`."""
        saved = self._shelf.get(workspace, name)
        if saved is None:
            raise _absent()
        return saved

    async def save(
        self,
        workspace: str,
        files: Mapping[str, bytes],
        *,
        by: str,
        called: str | None = None,
        edited: int | None = None,
        authored: bool = False,
    ) -> Saved[KeptSkill]:
        """Take these files as a skill, or as the new version of one. Raises `InvalidRequest`, `Conflict`,
        `StorageFull`. What a run wrote never takes the place of what a person did."""
        content = await asyncio.to_thread(read_content, files, called)
        name = content.text.name
        async with self._changing:
            await asyncio.to_thread(self._files.keep, workspace, files.values())
            saved = await self._shelf.save(
                workspace, name, self._next(workspace, content, by=by, authored=authored), by=by, edited=edited
            )
            await self._sweep(workspace)
            return saved

    async def remove(self, workspace: str, name: str, *, by: str, edited: int | None = None) -> None:
        """Forget a skill, with every version. Raises `NotFound`, `Conflict`."""
        async with self._changing:
            await self._shelf.delete(workspace, name, _must_be, by=by, edited=edited)
            await self._sweep(workspace)

    async def read(self, workspace: str, sha256: str) -> bytes:
        return await asyncio.to_thread(self._files.read, workspace, sha256)

    def _next(
        self, workspace: str, content: SkillContent, *, by: str, authored: bool
    ) -> Callable[[Saved[KeptSkill] | None], KeptSkill]:
        version = KeptVersion.of(content, by=by, at_ms=self._clock.now_ms(), authored=authored)

        def make(before: Saved[KeptSkill] | None) -> KeptSkill:
            if before is None:
                if self._shelf.count(workspace) >= SKILLS_OF_WORKSPACE:
                    limit = f"the workspace has {SKILLS_OF_WORKSPACE} skills"
                    raise Conflict(limit, hint="remove one that is not needed")
                return KeptSkill(name=content.text.name, current=version)
            known = before.thing
            if authored and not known.current.authored:
                raise Conflict(
                    f"the skill {known.name} was written by a person, and no run takes its place",
                    hint="give it another name",
                )
            others = [each for each in (known.current, *known.earlier) if each.digest != version.digest]
            return KeptSkill(name=known.name, current=version, earlier=tuple(others[:SKILL_VERSIONS]))

        return make

    def _changed(self, before: Saved[KeptSkill] | None, after: Saved[KeptSkill] | None) -> None:
        del before, after
        self.revision += 1

    async def _sweep(self, workspace: str) -> None:
        wanted = frozenset[str]().union(*(saved.thing.contents for saved in self.all(workspace)))
        await asyncio.to_thread(self._files.sweep, workspace, wanted)


def _absent() -> NotFound:
    return NotFound("there is no such skill", hint="`bollard skills list` names them")


def _must_be(saved: Saved[KeptSkill] | None) -> None:
    if saved is None:
        raise _absent()
