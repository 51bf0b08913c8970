"""The parts of a started host, as one value that the composition root passes on."""

import msgspec

from bollard.host.actions.budgets import SavedBudgets
from bollard.host.agents.routing import AgentDirectory
from bollard.host.audit.trail import AuditTrail
from bollard.host.channels.registry import ChannelRepository
from bollard.host.core import Core, Storage
from bollard.host.delivery.outbox import Delivery
from bollard.host.http.auth.admin_token import AdminToken
from bollard.host.http.resources.operations import OperationParts
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.models.source import ModelParts
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.saved import SavedParts
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import Vault
from bollard.host.settings import Settings
from bollard.host.tools.builtin import BuiltinTools
from bollard.trust.keys import VerifyKey


class HostKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The admin token, the secret that signs cursors, and the key that verifies the heads of the log."""

    token: AdminToken
    cursor_secret: bytes
    heads: VerifyKey


class HostParts(msgspec.Struct, frozen=True, kw_only=True):
    """Every part of a host. Only the composition root and its modules know all of them."""

    settings: Settings
    keys: HostKeys
    storage: Storage
    directory: AgentDirectory
    identity: IdentityDirectory
    vault: Vault
    redactor: Redactor
    fleet: PluginFleet
    tools: BuiltinTools
    models: ModelParts
    core: Core
    saved: SavedParts
    channels: ChannelRepository
    delivery: Delivery
    budgets: SavedBudgets
    trail: AuditTrail
    operating: OperationParts
