-- Calls and approvals of runs, and the flow bits of data. Existing rows have no flow, because it was not recorded before.

CREATE TABLE secrets (
        workspace {text} NOT NULL,
        secret_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, secret_id)
    )

CREATE TABLE mcp_servers (
        workspace {text} NOT NULL,
        mcp_server_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, mcp_server_id)
    )

CREATE TABLE skills (
        workspace {text} NOT NULL,
        skill_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, skill_id)
    )

CREATE TABLE tool_calls (
        run_id {text} NOT NULL,
        call_id {text} NOT NULL,
        workspace {text} NOT NULL,
        record_id BIGINT NOT NULL,
        capability {text} NOT NULL,
        name {text} NOT NULL,
        effects {text} NOT NULL,
        arguments_sha256 {text} NOT NULL,
        approval_id {text},
        flow BIGINT NOT NULL,
        status {text} NOT NULL,
        result {bytes},
        started_ms BIGINT NOT NULL,
        ended_ms BIGINT,
        PRIMARY KEY (run_id, call_id)
    )

CREATE INDEX tool_calls_open ON tool_calls (record_id) WHERE status = 'started'

CREATE TABLE approvals (
        approval_id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        run_id {text} NOT NULL,
        call_id {text} NOT NULL,
        agent_id {text} NOT NULL,
        digest {text} NOT NULL,
        status {text} NOT NULL,
        body {bytes} NOT NULL,
        decision {bytes},
        created_ms BIGINT NOT NULL,
        expires_ms BIGINT NOT NULL,
        decided_ms BIGINT
    )

CREATE INDEX approvals_in_order ON approvals (workspace, created_ms, approval_id)

CREATE INDEX approvals_by_status ON approvals (workspace, status, created_ms, approval_id)

CREATE INDEX approvals_open ON approvals (approval_id) WHERE status IN ('requested', 'granted')

CREATE INDEX approvals_of_run ON approvals (run_id, created_ms, approval_id)

ALTER TABLE events ADD COLUMN flow BIGINT NOT NULL DEFAULT 0

ALTER TABLE transcript ADD COLUMN flow BIGINT NOT NULL DEFAULT 0

ALTER TABLE state ADD COLUMN flow BIGINT NOT NULL DEFAULT 0

ALTER TABLE storage ADD COLUMN flow BIGINT NOT NULL DEFAULT 0

ALTER TABLE artifacts ADD COLUMN flow BIGINT NOT NULL DEFAULT 0
