"""Keeps the skills that a workspace has: their files on disk first, then the row that names them."""

import asyncio
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, StorageFull, StorageUnavailable, caused_by
from bollard.host.limits import SKILL_VERSIONS, SKILLS_OF_WORKSPACE
from bollard.host.log.saved_resources import Repository, ResourceKind, Saved, SavedChanges
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
            raise StorageFull(
                f"the skill cannot be saved: {error.strerror}",
                reason="skill_not_saved",
                hint="free some space",
                **caused_by(error),
            ) from error

    def read(self, workspace: str, sha256: str) -> bytes:
        """The content of this digest, and no other. Raises `StorageUnavailable`."""
        try:
            content = (self._folder / workspace / sha256).read_bytes()
        except OSError as error:
            raise StorageUnavailable(
                f"a file of the skill cannot be read: {error.strerror}",
                reason="skill_file_unreadable",
                hint=_AGAIN,
                **caused_by(error),
            ) from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise StorageUnavailable(
                "a file of the skill was changed on disk", reason="skill_file_changed", hint=_AGAIN
            )
        return content

    def sweep(self, workspace: str, wanted: Set[str]) -> None:
        """Remove contents without references."""
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


SKILL: Final = ResourceKind(kind="skill", noun="skill", listed_by="skills list", limit=SKILLS_OF_WORKSPACE)


class SkillRepository(Repository[KeptSkill]):
    """The saved skills. The files of a skill are on disk before the row that names them."""

    def __init__(self, changes: SavedChanges, files: ContentFiles, clock: Clock) -> None:
        super().__init__(SKILL, changes, kept_from_store, KeptSkill.to_wire)
        self._files = files
        self._clock = clock
        self._filing = asyncio.Lock()
        self.revision = 0
        """Grows with each change."""

    async def load(self, store: Store) -> None:
        """Read the store, and remove files that no skill names."""
        await super().load(store)
        for workspace in await asyncio.to_thread(self._files.workspaces):
            await self._sweep(workspace)

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
        """Save these files as a skill, or as a new version of it. A skill that a run wrote never replaces one that a
        person wrote. Raises `InvalidRequest`, `Conflict`, `StorageFull`."""
        content = await asyncio.to_thread(read_content, files, called)
        name = content.text.name
        async with self._filing:
            await asyncio.to_thread(self._files.keep, workspace, files.values())
            saved = await self._save(
                workspace, name, self._next(content, by=by, authored=authored), by=by, edited=edited
            )
            await self._sweep(workspace)
            return saved

    async def delete(self, workspace: str, name: str, *, by: str, edited: int | None = None) -> None:
        """Delete a skill with every version. Raises `NotFound`, `Conflict`."""
        async with self._filing:
            await self._delete(workspace, name, by=by, edited=edited)
            await self._sweep(workspace)

    async def read(self, workspace: str, sha256: str) -> bytes:
        return await asyncio.to_thread(self._files.read, workspace, sha256)

    def _next(
        self, content: SkillContent, *, by: str, authored: bool
    ) -> Callable[[Saved[KeptSkill] | None], KeptSkill]:
        version = KeptVersion.of(content, by=by, at_ms=self._clock.now_ms(), authored=authored)

        def make(before: Saved[KeptSkill] | None) -> KeptSkill:
            if before is None:
                return KeptSkill(name=content.text.name, current=version)
            known = before.value
            if authored and not known.current.authored:
                raise Conflict(
                    f"a person wrote the skill {known.name}, and a run cannot replace it",
                    reason="skill_of_person",
                    hint="choose another name",
                    skill=known.name,
                )
            others = [each for each in (known.current, *known.earlier) if each.digest != version.digest]
            return KeptSkill(name=known.name, current=version, earlier=tuple(others[:SKILL_VERSIONS]))

        return make

    def changed(self, before: Saved[KeptSkill] | None, after: Saved[KeptSkill] | None) -> None:
        del before, after
        self.revision += 1

    async def _sweep(self, workspace: str) -> None:
        wanted = frozenset[str]().union(*(saved.value.contents for saved in self.all(workspace)))
        await asyncio.to_thread(self._files.sweep, workspace, wanted)
