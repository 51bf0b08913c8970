"""What the command line says in English about runtimes of other machines."""

from typing import Final

__all__ = ["RUNTIMES"]

RUNTIMES: Final = {
    # --- help ---
    "runtime": "Serve a plugin on this machine to a host on another.\n\nThe first time it needs a code: `bollard "
    "runtimes enroll NAME` on the host gives one. It makes a key here, which never leaves this machine. From then on "
    "it connects by itself, and again whenever the line breaks.",
    "runtime.connect": "The host: wss://host, or ws://127.0.0.1:PORT on this machine.",
    "runtime.enroll": "A one-time code; only the first time.",
    "runtime.key": "Where the key is kept; otherwise below the user's settings, one for each host and plugin.",
    "runtimes": "List the runtimes of other machines, let them in, say yes to what they bring, revoke them.\n\n"
    "Without a command it lists them.",
    "runtimes.list": "List the runtimes, and whether they are connected.",
    "runtimes.enroll": "Print a one-time code that lets a runtime in under this name.",
    "runtimes.show": "Show one runtime: since when it is connected, what it brings, and what that asks for.",
    "runtimes.consent": "Say yes to the plugin that a runtime brings.\n\nThe yes is to this code: when it changes, the "
    "runtime waits until somebody says yes again.",
    "runtimes.enable": "Let a runtime in again.",
    "runtimes.disable": "Let a runtime in no more for now; its runs are ended.",
    "runtimes.revoke": "Forget the key of a runtime. It is cut at once, and its runs are ended.",
    "runtimes.name": "The runtime's name.",
    "runtimes.plugin": "The only plugin that it may bring.",
    # --- as it works ---
    "runtime.enrolled": "enrolled as {name}; the key is in {path}",
    "runtimes.enrolling": "Run this where {name} is, until {until}:",
    "runtimes.command": "  bollard runtime ./plugin --connect {url} --enroll {code}",
    "runtimes.once": "The code is good once and is not shown again. When it is connected: bollard runtimes consent "
    "{name}",
    "runtimes.none": "there are no runtimes; `bollard runtimes enroll NAME` lets one in",
    "runtimes.consented": "{name} may be given runs",
    "runtimes.enabled": "{name} may connect",
    "runtimes.disabled": "{name} may not connect",
    "runtimes.revoked": "{name} is revoked",
    "runtimes.column.name": "Runtime",
    "runtimes.column.status": "Status",
    "runtimes.column.plugin": "Plugin",
    "runtimes.column.since": "Connected since",
    "runtimes.column.ping": "Ping",
    "runtimes.column.runs": "Runs",
    "runtimes.status.ready": "ready",
    "runtimes.status.waiting": "waits",
    "runtimes.status.away": "away",
    "runtimes.status.disabled": "disabled",
    "runtimes.head": "{name}: {status}",
    "runtimes.key": "key: {key}",
    "runtimes.enrolled": "enrolled by {by} at {at}",
    "runtimes.only": "may bring {plugin} only",
    "runtimes.there": "connected since {since}, last seen {seen}, ping {ping}, runs: {runs}",
    "runtimes.worker": "runs {name} {version} ({language})",
    "runtimes.brings": "brings {plugin} {version}, code {digest}, which asks for:",
    "runtimes.agreed": "{plugin} {version} ({digest}) was agreed to by {by} at {at}",
    # --- what can go wrong ---
    "error.not_enrolled": "there is no key at {path}",
    "hint.not_enrolled": "get a code with `bollard runtimes enroll NAME` on the host, and give it as --enroll",
    "error.runtime": "{detail}",
    "hint.runtime": "{advice}",
    "hint.runtime.reach": "check the address, and that the host listens there",
}
