"""Password hashes: argon2id in threads, a few at a time. Checking an unknown user takes as long as a wrong password."""

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
    """Refuse passwords that are too short or trivial. There are no rules for the characters."""
    field = "password"
    if not PASSWORD_LEAST_CHARACTERS <= len(password) <= PASSWORD_CHARACTERS:
        raise InvalidRequest(
            f"a password has {PASSWORD_LEAST_CHARACTERS} to {PASSWORD_CHARACTERS} characters",
            reason="password_length",
            hint="use a few words, or a password manager",
            field=field,
            least=PASSWORD_LEAST_CHARACTERS,
            most=PASSWORD_CHARACTERS,
        )
    if user_id in password.lower() and len(password) < len(user_id) + PASSWORD_LEAST_CHARACTERS // 2:
        raise InvalidRequest(
            "the password is too similar to the user id", reason="password_id", hint="choose another", field=field
        )
    if len(set(password)) == 1:
        raise InvalidRequest(
            "the password repeats one character", reason="password_trivial", hint="choose another", field=field
        )


def _unmatchable_hash(hasher: "PasswordHasher") -> str:
    """A hash that no password has. Checking it takes as long as any other."""
    salt, made = (b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32))
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${costs}${salt}${made}"


class Passwords:
    """Hashes and verifies passwords. Each takes 0.1 s and tens of megabytes, so concurrency and the queue are
    limited."""

    def __init__(self, hasher: "PasswordHasher | None" = None) -> None:
        self._custom_hasher = hasher
        self._room = asyncio.Semaphore(PASSWORDS_AT_ONCE)
        self._waiting = 0

    @cached_property
    def _hasher(self) -> "PasswordHasher":
        """Imported with the first password: most hosts never use one, and the module needs memory."""
        hasher: PasswordHasher = self._custom_hasher or importlib.import_module("argon2").PasswordHasher()
        return hasher

    @cached_property
    def _dummy_hash(self) -> str:
        """The hash for unknown users."""
        return _unmatchable_hash(self._hasher)

    async def hash(self, password: str) -> str:
        return await self._work(self._hasher.hash, password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether the password matches. Takes the same time without a stored hash."""
        dummy = self._dummy_hash  # always built, so that the time does not depend on the user
        matches = await self._work(self._verify, stored or dummy, password)
        return matches and stored is not None

    def _verify(self, stored: str, password: str) -> bool:
        wrong = importlib.import_module("argon2.exceptions")
        try:
            return self._hasher.verify(stored, password[: PASSWORD_CHARACTERS + 1])
        except (wrong.VerificationError, wrong.InvalidHashError):
            return False

    async def _work(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._waiting >= PASSWORDS_WAITING:
            raise Overloaded(
                "too many logins are in progress", reason="logins", hint="retry in a moment", limit=PASSWORDS_WAITING
            )
        self._waiting += 1
        try:
            async with self._room:
                return await asyncio.to_thread(work, *args, **kwargs)
        finally:
            self._waiting -= 1
