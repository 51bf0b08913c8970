"""A store that fails on purpose: at the n-th call, before it or, for a commit, after it.

Calls are named `write.begin`, `write.add_records` and so on, `write.commit`, and `read.run` and so on.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from bollard.host.errors import HostError, StorageUnavailable
from bollard.host.store.store import Store
from bollard.host.store.transaction import WriteTransaction


def _unavailable(call: str) -> HostError:
    return StorageUnavailable(f"failed on purpose at {call}", reason="test", hint="this is a test")


def _nothing(call: str) -> None:
    del call


@dataclass(slots=True, kw_only=True)
class FailurePlan:
    """When to fail, and how. `calls` lists the calls; a test may change the plan at any time."""

    fail_at: int | None = None
    """The call that fails, counted from 1; nothing fails without it."""
    only: str = ""
    """Count only calls whose names begin with this."""
    after_commit: bool = False
    """A commit that fails has been made all the same: its caller cannot know."""
    error: Callable[[str], BaseException] = _unavailable
    on_call: Callable[[str], None] = _nothing
    """Called before each call: a place to wait, or to look."""
    calls: list[str] = field(default_factory=list[str])

    def fails(self, call: str) -> bool:
        """Count a call."""
        self.on_call(call)
        if not call.startswith(self.only):
            return False
        self.calls.append(call)
        return self.fail_at is not None and len(self.calls) == self.fail_at

    def check(self, call: str) -> None:
        if self.fails(call):
            raise self.error(call)


def failing(store: Store, plan: FailurePlan) -> Store:
    """`store`, failing as planned."""
    return cast("Store", _FailingStore(store, plan))


class _Watched:
    """Forwards every call, after telling the plan."""

    def __init__(self, inner: Any, kind: str, plan: FailurePlan) -> None:
        self._inner = inner
        self._kind = kind
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._plan.check(f"{self._kind}.{name}")
            return method(*args, **kwargs)

        return call


class _FailingStore(_Watched):
    def __init__(self, store: Store, plan: FailurePlan) -> None:
        super().__init__(store, "read", plan)

    def open(self) -> None:
        self._inner.open()

    def close(self) -> None:
        self._inner.close()

    @contextmanager
    def write(self) -> Generator[WriteTransaction]:
        plan, failed_late = self._plan, False
        plan.check("write.begin")
        with self._inner.write() as transaction:
            yield cast("WriteTransaction", _Watched(transaction, "write", plan))
            if plan.fails("write.commit"):
                if not plan.after_commit:
                    raise plan.error("write.commit")
                failed_late = True
        if failed_late:
            raise plan.error("write.commit")
