"""What the command line says in English about keeping a host well: backups, upgrades, and what is wrong."""

from typing import Final

UPKEEP: Final = {
    "doctor": "Find out what is wrong and how to mend it.\n\nLooks at the settings, the data directory, the "
    "database, the machine, and at the host if one runs. Changes nothing. Ends with 1 when something is in the way.",
    "backup": "Write all of a store into one archive, while its host runs.\n\nThe archive is verified before it "
    "gets its name: every digest, every link of the log's chain, every content. Only its owner can read it.",
    "backup.file": "The archive to write; one that is there is not overwritten.",
    "backup.with_keys": "Take the keys along: the one that signs the log, and the digest of the admin token. Who "
    "has such an archive can sign as this host.",
    "backup.incomplete": "Continue although contents that the log refers to are missing, and list them.",
    "restore": "Bring a backup back, into a directory and a database that are empty.\n\nThe archive must be signed by "
    "a known key: that of the host in the settings, one given with --trust, or one that a person confirms.\n\nWhat was "
    "unfinished when the backup was taken is not done again: it may have been done since. The log says that it was "
    "restored.",
    "restore.file": "The archive that `bollard backup` wrote.",
    "export": "Write one workspace into an archive, while its host runs.\n\nIts part of the log with its chain, "
    "and the contents it names. Never keys, passwords, sessions or secrets.",
    "export.workspace": "Which workspace; `default` otherwise.",
    "import": "Bring a workspace in from an archive. The host must be stopped.\n\nThe archive must be signed by a "
    "known key, as for `bollard restore`. It is verified before anything is written. Nothing is merged: the host must "
    "not have a workspace of that name.",
    "import.file": "The archive that `bollard export` wrote.",
    "migrate": "Bring the database to the schema of this version. The host must be stopped.\n\nA start does the "
    "same by itself; this does it without one.",
    "migrate.check": "Only say which schema is there and which is needed; ends with 1 when they differ.",
    "error.archive": "{detail}",
    "error.content_archive": "the archive lacks {contents} contents that its log refers to; the first is {content} "
    "({named_by})",
    "hint.content_archive": "use another copy of the archive, or continue without these contents: --incomplete",
    "error.content_source": "{contents} contents that the log refers to are not in the data directory; the first is "
    "{content} ({named_by})",
    "hint.content_source": "copy them back from an earlier backup, or write the archive without them: --incomplete",
    "error.archive_unsigned": "the archive is not signed: anybody could have written it. Nothing was written.",
    "hint.archive_unsigned": "versions before this one did not sign archives; if you know where it comes from, add "
    "--unsigned, or answer the question at a terminal",
    "error.archive_unknown": "the archive is signed by a key that is not known here: {fingerprint}. Nothing was "
    "written.",
    "hint.archive_unknown": "compare it with the fingerprint that `bollard backup` or `bollard export` printed; if it "
    "is the same, add --trust {fingerprint}, or answer the question at a terminal",
    "error.archive_declined": "the archive was not confirmed. Nothing was written.",
    "hint.archive_declined": "compare the fingerprint with what the backup printed, or use another copy",
    "error.trust": "{value} is no fingerprint",
    "hint.trust": "--trust takes the 64 hexadecimal digits that `bollard backup` or `bollard export` printed",
    "archive.trust": "Accept an archive signed by the key with this fingerprint. May be given more than once.",
    "archive.unsigned": "Accept an archive without a signature, as earlier versions wrote it. Anybody could have "
    "changed what it holds.",
    "archive.is_unknown": "{file} says that version {version} wrote it at {taken}.\nIt is signed by a key that is not "
    "known here:\n\n    {fingerprint}\n\nCompare it with the fingerprint that was printed when the archive was "
    "written. The archive itself does not prove whose key it is.",
    "archive.confirm_unknown": "Are the fingerprints the same? Type yes to continue",
    "archive.is_unsigned": "{file} says that version {version} wrote it at {taken}.\nIT IS NOT SIGNED. Anybody who "
    "could write this file could have changed the users, passwords, keys and messages in it.",
    "archive.confirm_unsigned": "Do you know where it comes from, and do you want to use it anyway? Type yes to "
    "continue",
    "stage.rows": "Rows",
    "stage.blobs": "Contents",
    "stage.projections": "Projections",
    "stage.verify": "Verifying rows",
    "stage.verify_blobs": "Verifying contents",
    "stage.project": "Replaying the log",
    "stage.compare": "Comparing rows",
    "backup.written": "wrote {file} ({size}): {records} records in {chains} chains, {contents} contents, all verified",
    "backup.signed": "signed by the key {fingerprint}. Note it: a restore on another machine asks for it.",
    "backup.keys": "The keys are inside: keep the archive like the host itself.",
    "backup.no_keys": "The keys are not inside. A restore makes new ones: a new admin token is printed, and what "
    "the old key signed can still be verified.",
    "backup.missing": "the content {sha256} is missing",
    "restore.done": "restored {records} records of {taken} into {path}",
    "restore.settled": "not done again: {runs} runs ended as lost, {approvals} approvals and {questions} questions "
    "expired, {events} waiting messages dropped, {deliveries} replies that may or may not have arrived",
    "restore.approval_requested": "approval {approval} expired: {name} was not decided yet (run {run})",
    "restore.approval_granted": "approval {approval} expired: {name} was granted and not used yet (run {run})",
    "restore.question": "question {question} expired: {asked} (run {run})",
    "restore.delivery": "delivery {delivery} is unknown: the reply may have arrived",
    "restore.more": "… and {count} more; --json lists all of them",
    "restore.since": "What happened after the backup is gone. Keys and users that were withdrawn since are back: "
    "withdraw them again.",
    "restore.keys": "The keys came back: the admin token of then is valid.",
    "restore.no_keys": "The backup has no keys: the next start makes new ones and prints a new admin token.",
    "export.written": "wrote {file} ({size}): {records} records and {contents} contents of {workspace}, all verified",
    "export.withheld": "{count} records about keys and secrets are there without their data",
    "export.plugins": "the archive does not hold the code of plugins; install them on the other host: {plugins}",
    "export.agents": "without fields of their configuration that may be secrets: {agents}",
    "import.done": "imported {workspace}: {records} records, {contents} contents",
    "import.next": "Its users have no passwords and no keys here: give them new ones.",
    "migrate.versions": "it has schema {current}, this version knows up to {needed}",
    "migrate.empty": "there is no database yet; a first start makes one with schema {needed}",
    "migrate.current": "the database has schema {current}, and this version needs {needed}",
    "migrate.older": "the database has schema {current}, this version needs {needed}: the next start upgrades it",
    "migrate.done": "the database was brought from schema {current} to {needed}",
    "doctor.error": "problem",
    "doctor.warning": "warning",
    "doctor.note": "note",
    "doctor.well": "nothing is in the way ({warnings} warnings)",
    "doctor.sick": "{errors} problems, {warnings} warnings",
    "doctor.settings": "the settings cannot work: {problem}",
    "doctor.settings.why": "a host does not start with settings that it does not understand",
    "doctor.settings.fix": "{advice}",
    "doctor.public_bind": "the host would listen at {host} without TLS",
    "doctor.public_bind.why": "everybody who can reach this machine could read tokens and messages on their way",
    "doctor.public_bind.fix": "give it tls_cert and tls_key, or the https origin of a proxy in front, or listen at "
    "127.0.0.1",
    "doctor.data_no_folder": "{path} is not a folder",
    "doctor.data_no_folder.why": "the data directory holds everything that must survive",
    "doctor.data_no_folder.fix": "choose another directory with --data",
    "doctor.data_owner": "{path} belongs to user {owner}, and this is user {me}",
    "doctor.data_owner.why": "files that another user made cannot be opened, or become theirs",
    "doctor.data_owner.fix": "run as that user, or change the owner: chown -R {me} {path}",
    "doctor.data_unwritable": "{path} cannot be written",
    "doctor.data_unwritable.why": "a host that cannot write takes nothing",
    "doctor.data_unwritable.fix": "make it writable for this user, or choose another directory with --data",
    "doctor.data_absent": "{path} is not there yet",
    "doctor.data_absent.why": "the first start makes it",
    "doctor.data_absent.fix": "`bollard up`, or name another directory with --data",
    "doctor.data_open": "others can look into {path} (mode {mode})",
    "doctor.data_open.why": "it holds what people said",
    "doctor.data_open.fix": "chmod 700 {path}",
    "doctor.data_busy": "process {pid} uses {path}, and no host of it answers at port {port}",
    "doctor.data_busy.why": "one process at a time may use a data directory",
    "doctor.data_busy.fix": "stop that process, or ask for the port where its host listens with --port",
    "doctor.key_readable": "others can read {file}",
    "doctor.key_readable.why": "whoever has it can act as this host, or as its administrator",
    "doctor.key_readable.fix": "chmod 600 {file}, and replace it if somebody may have read it",
    "doctor.disk_full": "only {free} are left for {path}",
    "doctor.disk_full.why": "a host on a full disk takes nothing new and ends what runs",
    "doctor.disk_full.fix": "free some space; writing resumes by itself",
    "doctor.disk_low": "{free} are left for {path}",
    "doctor.disk_low.why": "when the disk is full, nothing new is taken",
    "doctor.disk_low.fix": "free some space, or let old records go: the setting `retention`",
    "doctor.port_taken": "port {port} is taken by {by}",
    "doctor.port_taken.why": "the host cannot listen there",
    "doctor.port_taken.fix": "stop what listens there, or choose another port with --port",
    "doctor.port_refused": "{host}:{port} cannot be listened on: {problem}",
    "doctor.port_refused.why": "ports below 1024 may be kept for administrators, and an address must be this machine's",
    "doctor.port_refused.fix": "choose another port with --port, or another address with the setting `host`",
    "doctor.port_other_host": "a host answers at port {port} ({by}), and it does not use {path}",
    "doctor.port_other_host.why": "commands of this folder talk to a host with other data",
    "doctor.port_other_host.fix": "name its data directory with --data, or choose another port with --port",
    "doctor.not_running": "no host answers at port {port}",
    "doctor.not_running.why": "plugins and agents can only be asked about while one runs",
    "doctor.not_running.fix": "`bollard up` starts one",
    "doctor.not_ready": "the host at {address} is not ready: {reasons}",
    "doctor.not_ready.why": "it refuses work until it is",
    "doctor.not_ready.fix": "its log says more; ask again in a moment",
    "doctor.plugin_quarantined": "plugin {plugin} is not used: {problem}",
    "doctor.plugin_quarantined.why": "its workers could not start or crashed too often, so its agents are not there",
    "doctor.plugin_quarantined.fix": "`bollard plugin check` says what is wrong with it; then start the host again",
    "doctor.no_token": "there is no token for {address}, so its agents were not looked at",
    "doctor.no_token.why": "a host tells about its agents only to those who may know",
    "doctor.no_token.fix": "give it with --token or BOLLARD_TOKEN",
    "doctor.no_model": "agent {agent} needs a model that this host does not have: {models}",
    "doctor.no_model.why": "its runs will fail when they ask for it",
    "doctor.no_model.fix": "choose another model in its configuration, or none: `bollard agents show {agent}`",
    "doctor.only_demo": "the only model of {address} is the built-in demo",
    "doctor.only_demo.why": "it shows how things work, and is no language model",
    "doctor.only_demo.fix": "add one: `bollard models add`, or start the host with OPENAI_BASE_URL set",
    "doctor.store_unreachable": "{store} cannot be used: {problem}",
    "doctor.store_unreachable.why": "without its database a host does not start",
    "doctor.store_unreachable.fix": "look whether the server runs and the setting `database` is right, or at the "
    "file and its disk",
    "doctor.schema_older": "the database has schema {current}, this version needs {needed}",
    "doctor.schema_older.why": "the next start upgrades it; older versions do not read it then",
    "doctor.schema_older.fix": "`bollard backup` first, if you may want to go back",
    "doctor.schema_newer": "the database has schema {current}, this version knows up to {needed}",
    "doctor.schema_newer.why": "a newer version wrote it, and this one would misread it",
    "doctor.schema_newer.fix": "run that version again, or restore a backup made before the upgrade",
    "doctor.chain_broken": "the newest part of the log is not what was written: {problem}",
    "doctor.chain_broken.why": "somebody or something changed the database beside the host",
    "doctor.chain_broken.fix": "stop the host, keep a copy of the data directory, and restore a backup",
    "doctor.record_future": "the newest record is {seconds} s in the future",
    "doctor.record_future.why": "the clock was ahead once, or is behind now: times in the log are not in order",
    "doctor.record_future.fix": "set the clock, and let it be kept in time (NTP)",
    "doctor.clock_jump": "the clock jumped by {seconds} s since the host started",
    "doctor.clock_jump.why": "deadlines and leases do not care, but times in the log do",
    "doctor.clock_jump.fix": "let the clock be kept in time (NTP)",
    "doctor.files_low": "a host may open {limit} files here, and could need {wanted}",
    "doctor.files_low.why": "each connection is one; when they run out, new ones wait",
    "doctor.files_low.fix": "raise the limit (`ulimit -n`, LimitNOFILE= of systemd), or lower the setting "
    "`connections`",
    "doctor.sandbox": "programs of runs (the tool exec) are confined by {level} (here: Landlock {landlock}, user "
    "namespaces {namespaces}, bubblewrap {bubblewrap}); workers of plugins are not",
    "doctor.sandbox.why": "a plugin can read what this user can read, and reach the network",
    "doctor.sandbox.fix": "install only plugins that you trust, and run the host as a user of its own",
    "doctor.sandbox_missing": "no program of a run (the tool exec) is started: {problem} (here: Landlock {landlock}, "
    "user namespaces {namespaces}, bubblewrap {bubblewrap})",
    "doctor.sandbox_missing.why": "what is demanded and cannot be had is refused; agents work without exec",
    "doctor.sandbox_missing.fix": "{advice}",
}


# What the command line says in English about draining a host.


OPERATING: Final = {
    "drain": "Let a host take nothing new, so that it can be stopped without anybody noticing.\n\n"
    "What runs goes on, what waits stays on disk, and /readyz says so.",
    "drain.option.undo": "Take work again.",
    "drain.option.wait": "Wait until nothing runs any more.",
    "drain.on": "{address} takes nothing new: {live} runs go on, {queued} wait on disk",
    "drain.off": "{address} takes work again",
    "drain.empty": "nothing runs there any more",
    "error.drain": "--undo and --wait do not go together",
    "hint.drain": "give one of them",
}


# What the command line says in English about the audit.


AUDIT: Final = {
    "audit": "Read the log as evidence, and find out whether it is what was written.",
    "audit.verify": "Verify the log of a store against signed heads and witnesses, and the database against the log; "
    "or verify a proof.\n\nWorks beside a host that runs, and without one. Writes nothing. Ends with 1 when something "
    "is not as it was written, and names the place; with 5 when no witness vouches for the end of the log.",
    "audit.log_only": "Verify the log alone; do not compare the rest of the database with it.",
    "audit.witness": "A witness: a file of signed heads or a URL; that of the settings otherwise. May be given more "
    "than once.",
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
    "audit.empty": "UNWITNESSED: the log is empty, and no witness says what was in it. If this host "
    "was used before, its records are gone: name its witness with --witness",
    "audit.unwitnessed": "UNWITNESSED: no witness has a head of the newest chain ({count} of {chains} chains have "
    "none). The end of the log could have been cut off together with its heads. Name the witness with --witness",
    "audit.witness_inside": "the only witness is in the data directory: whoever can write there can cut off the end "
    "of the log and of its witness. Set `witness` to another place",
    "audit.segments": "{count} archived segments were verified too",
    "audit.same": "the database matches the log: {rows} rows, {contents} contents, {kept} rows outside the log",
    "audit.differs": "the database does NOT match the log: {count} differences in {rows} rows, {contents} contents "
    "and {kept} rows outside the log",
    "audit.mismatch_edited": "edited: {place}: {columns}",
    "audit.mismatch_missing": "missing: {place}: the log has a record of it",
    "audit.mismatch_unknown": "unknown: {place}: no record of the log created it",
    "audit.mismatch_content_edited": "content edited: {place}: the file has another digest",
    "audit.mismatch_content_missing": "content missing: {place}: a row refers to it",
    "audit.mismatch_kept": "not written by this host: {place}: its HMAC is missing or wrong ({columns})",
    "audit.mend_rebuild": "Stop the host, keep a copy, and run `bollard log rebuild`: it makes the rows again from "
    "the log.",
    "audit.mend_restore": "The log does not hold contents: copy the file back from a backup.",
    "audit.mend_drop": "Stop the host, keep a copy, and run `bollard log rebuild --drop-unverified`. It deletes and "
    "lists these rows; set the passwords and secrets again. If keys/kept.key was replaced, put the old file back "
    "instead.",
    "audit.not_compared": "the rest of the database was not compared: the log itself is broken",
    "audit.no_contents": "contents were not checked: there is no data directory",
    "audit.no_kept_key": "rows outside the log, such as passwords and secrets, were not checked: keys/kept.key was not "
    "found",
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
