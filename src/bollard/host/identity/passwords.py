"""Passwords: argon2id, off the loop, a few at a time. An unknown user costs the same as a wrong password."""

import asyncio
import importlib
import secrets
from base64 import b64encode
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from bollard.host.errors import InvalidRequest, Overloaded
from bollard.host.limits import PASSWORD_CHARACTERS, PASSWORD_LEAST_CHARACTERS, PASSWORDS_AT_ONCE, PASSWORDS_WAITING

if TYPE_CHECKING:
    from argon2 import PasswordHasher

P = ParamSpec("P")
R = TypeVar("R")


def check_new_password(password: str, user_id: str) -> None:
    """Refuse what is too short to be one. What is inside is a person's own business."""
    field = "password"
    if not PASSWORD_LEAST_CHARACTERS <= len(password) <= PASSWORD_CHARACTERS:
        raise InvalidRequest(
            f"a password has {PASSWORD_LEAST_CHARACTERS} to {PASSWORD_CHARACTERS} characters",
            hint="use a few words, or let a password manager make one",
            field=field,
        )
    if user_id in password.lower() and len(password) < len(user_id) + PASSWORD_LEAST_CHARACTERS // 2:
        raise InvalidRequest("the password is little more than the user's id", hint="choose another", field=field)
    if len(set(password)) == 1:
        raise InvalidRequest("the password is one character again and again", hint="choose another", field=field)


def _hash_of_nothing(hasher: "PasswordHasher") -> str:
    """What no password has, and what takes as long to be held against as any other."""
    salt, made = (b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32))
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${costs}${salt}${made}"


class Passwords:
    """Hashes and checks. Each takes a tenth of a second and tens of megabytes, so few at once and few that wait."""

    def __init__(self, hasher: "PasswordHasher | None" = None) -> None:
        self._given = hasher
        self._room = asyncio.Semaphore(PASSWORDS_AT_ONCE)
        self._waiting = 0

    @cached_property
    def _hasher(self) -> "PasswordHasher":
        """Loaded with the first password: most hosts on a laptop never see one, and their memory is measured."""
        made: PasswordHasher = self._given or importlib.import_module("argon2").PasswordHasher()
        return made

    @cached_property
    def _nobodys(self) -> str:
        """What the password of an unknown user is held against."""
        return _hash_of_nothing(self._hasher)

    async def hash(self, password: str) -> str:
        return await self._work(self._hasher.hash, password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether it is the password; in the same time where there is none."""
        nobodys = self._nobodys  # made once, whoever is the first to ask
        matches = await self._work(self._verify, stored or nobodys, password)
        return matches and stored is not None

    def _verify(self, stored: str, password: str) -> bool:
        wrong = importlib.import_module("argon2.exceptions")
        try:
            return self._hasher.verify(stored, password[: PASSWORD_CHARACTERS + 1])
        except (wrong.VerificationError, wrong.InvalidHashError):
            return False

    async def _work(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._waiting >= PASSWORDS_WAITING:
            raise Overloaded("too many people log in at once", hint="try again in a moment", limit=PASSWORDS_WAITING)
        self._waiting += 1
        try:
            async with self._room:
                return await asyncio.to_thread(work, *args, **kwargs)
        finally:
            self._waiting -= 1
