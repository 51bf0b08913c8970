"""The records of a person or of a conversation, found by reading the log. Pure.

An event belongs to a person by its actor, and to a conversation by its scope. The runs of the event and the runs that
they call belong to it too, with all of their records; so do the deliveries, approvals and deletions of these runs that
are recorded outside of them, and the schedules that these runs created, with the events of their ticks. A message that
steered the run of another person is the person's; the answer is not.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, cast

import msgspec

from bollard.host.store.rows import PolicyKind, RecordRow
from bollard.protocol import JsonObject, JsonValue

_decode: Final = msgspec.json.Decoder().decode
SCHEDULE: Final[PolicyKind] = "schedule"
IDENTITY_KINDS: Final[tuple[PolicyKind, ...]] = ("user", "actor", "key")
"""Saved resources that belong to a person."""
_UPLOADS: Final = frozenset({"artifact.created", "artifact.deleted", "knowledge.changed"})
"""Records of uploads and their deletion. An erasure deletes the uploads of a person first."""
ROUNDS: Final = 4
"""Readings of the log that find runs of runs. A run is recorded after its caller, so two are enough."""


def name_digest(workspace: str, name: str) -> str:
    """The digest of `type:id`, under which lists of erasures name a person. Short names can be guessed."""
    return sha256(f"{workspace}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class Selection:
    """Selects records of one workspace. Feed the whole log to `learn` until nothing is new, then ask `has`."""

    workspace: str
    is_event: Callable[[JsonObject], bool]
    """Whether the data of an `event.received` record belongs to the selection."""
    is_name: Callable[[str], bool] = lambda _: False
    """Whether `type:id` names the person."""
    events: set[str] = field(default_factory=set[str])
    runs: set[str] = field(default_factory=set[str])
    files: set[str] = field(default_factory=set[str])
    """Artifacts that came with the events."""

    @classmethod
    def of_person(cls, workspace: str, digests: Iterable[str]) -> "Selection":
        """The records of the person whose names have these digests."""
        known = frozenset(digests)

        def is_name(name: str) -> bool:
            return name_digest(workspace, name) in known

        return cls(workspace, lambda data: is_name(_actor_name(data)), is_name)

    @classmethod
    def of_conversation(cls, workspace: str, bot: str | None, conversation: str) -> "Selection":
        """The records of a conversation and its threads."""
        return cls(workspace, lambda data: (data.get("bot"), data.get("conversation")) == (bot, conversation))

    def learn(self, row: RecordRow) -> None:
        """Find events and runs of the selection."""
        if row.workspace != self.workspace or row.data is None:
            return
        if row.type == "event.received":
            data = _read(row)
            if self.is_event(data) or self.is_proposed(_schedule_of(data)):
                self.events.add(str(data.get("event_id")))
        elif row.type == "run.created":
            data = _read(row)
            if data.get("event_id") in self.events or data.get("parent_run_id") in self.runs:
                self.runs.add(str(data.get("run_id")))
        elif row.type == "artifact.created" and row.run_id is None:
            data = _read(row)
            if data.get("event_id") in self.events:
                self.files.add(str(data.get("artifact_id")))

    @property
    def size(self) -> int:
        return len(self.events) + len(self.runs) + len(self.files)

    def has(self, row: RecordRow) -> bool:
        """Whether the data of a record belongs to the selection."""
        if row.workspace != self.workspace or row.data is None:
            return False
        if row.run_id is not None:
            return row.run_id in self.runs
        data = _read(row)
        if data.get("event_id") in self.events or data.get("run_id") in self.runs:
            return True
        if isinstance(delivery := data.get("delivery_id"), str):
            # `run.number`, or `workspace/event.reply` for a message of the host itself.
            return delivery.rpartition("/")[2].partition(".")[0] in self.runs | self.events
        return self._is_named(row.type, data)

    def _is_named(self, kind: str, data: JsonObject) -> bool:
        """Whether a record that belongs to no event names the person."""
        if kind.startswith("login."):
            return self.is_name(f"user:{data.get('user_id')}")
        if kind == "state.deleted":
            return data.get("written_by") in self.runs
        if kind in _UPLOADS:
            return data.get("artifact_id") in self.files or self.is_name(str(data.get("by")))
        if kind == "policy.changed" and isinstance(body := data.get("body"), dict):
            saved = cast("JsonObject", body)
            if data.get("kind") == SCHEDULE:
                return self.is_proposed(saved)
            return data.get("kind") in IDENTITY_KINDS and self.is_identity(saved)
        return False

    def is_proposed(self, schedule: JsonObject) -> bool:
        """Whether a run of the selection created the schedule."""
        return schedule.get("proposed_by") in self.runs

    def is_identity(self, body: JsonObject) -> bool:
        """Whether the body of a user, a link or a key is the person's."""
        return self.is_name(str(body.get("actor"))) or self.is_name(f"user:{body.get('user_id')}")


def _schedule_of(event: JsonObject) -> JsonObject:
    """The schedule of a tick; nothing for other events."""
    extra = event.get("extra")
    schedule = extra.get(SCHEDULE) if isinstance(extra, dict) else None
    return schedule if isinstance(schedule, dict) else {}


def _actor_name(data: JsonObject) -> str:
    return f"{data.get('actor_type')}:{data.get('actor_id')}"


def _read(row: RecordRow) -> JsonObject:
    """The data of a record; nothing if it is not a JSON object, as in a log that was edited."""
    try:
        data: JsonValue = _decode(row.data or b"{}")
    except msgspec.MsgspecError:
        return {}
    return data if isinstance(data, dict) else {}
