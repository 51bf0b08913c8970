"""What the command line says in English about the audit."""

from typing import Final

__all__ = ["AUDIT"]

AUDIT: Final = {
    "audit": "Read the log as evidence, and find out whether it is what was written.",
    "audit.verify": "Verify the whole log of a store, or a proof, against signed heads and "
    "witnesses.\n\nWorks beside a host that runs, and without one. Writes nothing. Ends with 1 when something "
    "is not as it was written, and names the place.",
    "audit.witness": "What a witness was told, a file of signed heads; that of the settings otherwise. May "
    "be given more than once.",
    "audit.public_key": "The public key to believe, as 64 hex digits or a file that holds them; those of the "
    "data directory otherwise. May be given more than once.",
    "audit.proof": "Verify a proof of a run instead of a store.",
    "audit.prove": "Write one file that proves what a run was: its event, its grant, its records and the "
    "signed heads they lead to.\n\nWhoever has the public key can check it with `bollard audit verify "
    "--proof`, without this host.",
    "audit.prove_run": "The id of the run.",
    "audit.prove_out": "The file to write; one that is there is not overwritten.",
    "audit.show": "Show what happened, the newest first.",
    "audit.export": "Write what happened to a file, one JSON record in each line, the oldest first. The log "
    "says who took it.",
    "audit.export_out": "The file to write.",
    "audit.type": "Only records of this type, such as login.failed; may be given more than once.",
    "audit.severity": "At least debug, info, warning, error or critical.",
    "audit.run": "Only what is about this run.",
    "audit.actor": "Only what this actor did, such as user:ann.",
    "audit.since": "Not older than this.",
    "audit.limit": "How many at most.",
    "audit.none": "nothing of that kind happened",
    "audit.exported": "wrote {records} records to {file}",
    "audit.problem": "{kind}: {place} at position {position}: {detail}",
    "audit.problem_record": "  near record {id}",
    "audit.whole": "the log is what was written: {records} records in {chains} chains, {heads} signed heads "
    "(key {keys})",
    "audit.broken": "the log is NOT what was written: {problems} problems in {records} records of {chains} chains",
    "audit.unsigned": "{count} records at the end of a chain are not covered by a signed head: heads are signed every "
    "minute, and by a host that is stopped, not by one that is killed",
    "audit.dropped": "the data of {count} records was dropped by retention; their headers are whole",
    "audit.no_witness": "no witness was read: whoever can write the database and the key could have cut the "
    "end off. Name one with --witness",
    "audit.segments": "{count} archived segments were verified too",
    "audit.proof_problem": "not proved: {detail}",
    "audit.proved": "proved: run {run}, {records} records, signed by key {keys}",
    "audit.not_proved": "run {run} is NOT proved by its {records} records (key {keys})",
    "audit.proof_unsigned": "{count} records are not covered by a signed head; prove the run again a minute "
    "after its end",
    "audit.proof_without_data": "the data of {count} records is not in the proof: it was dropped, or withheld",
    "audit.proof_own_key": "The public key came from the proof itself. Compare {keys} with the key that the "
    "host's people gave you, or give it with --public-key.",
    "audit.prove_written": "wrote {file}: run {run}, {records} records",
    "error.audit_no_key": "there is no public key in {path}",
    "hint.audit_no_key": "give it with --public-key; a running host tells it at GET /api/v1/audit/heads",
    "error.audit_key": "{value} is no public key",
    "hint.audit_key": "64 hex digits, or a file that holds them",
    "error.audit_proof": "{path} cannot be read as a proof: {detail}",
    "hint.audit_proof": "`bollard audit prove RUN --out FILE` writes one",
    "error.audit_schema": "the database has schema {current}, and this version reads {needed}",
    "hint.audit_schema": "use the version of Bollard that runs on it, or `bollard migrate` while no host runs",
}
