"""Keeps the skills that a workspace has: their files on disk first, then the row that names them."""

import asyncio
from collections.abc import Callable, Mapping

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, NotFound
from bollard.host.limits import SKILL_VERSIONS, SKILLS_OF_WORKSPACE
from bollard.host.log.saved_changes import SavedChanges
from bollard.host.log.shelf import Saved, Shelf
from bollard.host.skills.content_files import ContentFiles
from bollard.host.skills.skill import KeptSkill, KeptVersion, kept_from_store
from bollard.host.skills.skill_files import SkillContent, read_content
from bollard.host.store.boundary import Store

__all__ = ["SkillBook"]


class SkillBook:
    """One per host. Changes are made one after the other."""

    def __init__(self, changes: SavedChanges, files: ContentFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._changing = asyncio.Lock()
        self.revision = 0
        """Grows with each change."""
        self._shelf: Shelf[KeptSkill] = Shelf(
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
