-- The log, its projections and the transcript. A statement is a paragraph; words in braces differ between databases.
--
-- Every index here is written with every run, so each has a read that needs it. On SQLite a commit writes whole pages,
-- one at least for each index it touches; there, the two that only retention reads are made by the first purge.

CREATE TABLE records (
        id {id} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        chain {text} NOT NULL,
        position BIGINT NOT NULL,
        run_id {text},
        seq BIGINT,
        epoch BIGINT,
        source_seq BIGINT,
        type {text} NOT NULL,
        observed BOOLEAN NOT NULL,
        created_ms BIGINT NOT NULL,
        data {bytes},
        data_sha256 {text} NOT NULL,
        hash {text} NOT NULL
    )

CREATE UNIQUE INDEX records_of_run ON records (run_id, seq) WHERE run_id IS NOT NULL

CREATE UNIQUE INDEX records_of_chain ON records (workspace, chain, position)

CREATE TABLE deltas (
        run_id {text} NOT NULL,
        epoch BIGINT NOT NULL,
        first_seq BIGINT NOT NULL,
        last_seq BIGINT NOT NULL,
        created_ms BIGINT NOT NULL,
        spans {bytes} NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (run_id, first_seq)
    ){small}

CREATE TABLE heads (
        workspace {text} NOT NULL,
        chain {text} NOT NULL,
        position BIGINT NOT NULL,
        hash {text} NOT NULL,
        created_ms BIGINT NOT NULL,
        key_id {text} NOT NULL,
        signature {bytes} NOT NULL,
        PRIMARY KEY (workspace, chain, position)
    ){small}

CREATE TABLE events (
        record_id BIGINT NOT NULL,
        event_id {text} NOT NULL,
        workspace {text} NOT NULL,
        source {text} NOT NULL,
        source_id {text} NOT NULL,
        type {text} NOT NULL,
        run_id {text},
        bot {text},
        conversation {text},
        thread {text},
        actor_type {text},
        actor_id {text},
        actor_name {text},
        subject_type {text},
        subject_id {text},
        summary {text},
        event_ms BIGINT,
        created_ms BIGINT NOT NULL,
        dispatch {text} NOT NULL,
        steering {text},
        steering_ms BIGINT,
        place {text},
        PRIMARY KEY (workspace, record_id)
    ){small}

CREATE UNIQUE INDEX events_by_id ON events (workspace, event_id)

CREATE UNIQUE INDEX events_by_source ON events (workspace, source, source_id)

CREATE INDEX events_in_place ON events (place, record_id) WHERE place IS NOT NULL

CREATE INDEX events_pending ON events (record_id) WHERE dispatch = 'pending'

CREATE TABLE runs (
        run_id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        event_id {text} NOT NULL,
        agent_id {text} NOT NULL,
        binding_id {text} NOT NULL,
        runner_id {text} NOT NULL,
        bot {text},
        conversation {text},
        thread {text},
        parent_run_id {text},
        depth BIGINT NOT NULL,
        status {text} NOT NULL,
        reason {text},
        epoch BIGINT NOT NULL,
        owner {text},
        lease_until_ms BIGINT,
        grant_sha256 {text} NOT NULL,
        created_ms BIGINT NOT NULL,
        started_ms BIGINT,
        finished_ms BIGINT,
        updated_ms BIGINT NOT NULL,
        cancel_requested_ms BIGINT,
        last_seq BIGINT NOT NULL,
        facts {bytes} NOT NULL,
        ended SMALLINT NOT NULL GENERATED ALWAYS AS (
            CASE WHEN status IN ('completed', 'failed', 'cancelled', 'timeout') THEN 1 ELSE 0 END
        ) STORED
    ){small}

CREATE INDEX runs_unfinished ON runs (run_id) WHERE ended = 0

CREATE INDEX runs_in_order ON runs (workspace, created_ms, run_id)

CREATE INDEX runs_of_agent ON runs (workspace, agent_id, created_ms, run_id)

CREATE INDEX runs_of_conversation ON runs (workspace, conversation, created_ms, run_id) WHERE conversation IS NOT NULL

CREATE INDEX runs_of_parent ON runs (parent_run_id, created_ms, run_id) WHERE parent_run_id IS NOT NULL

CREATE TABLE transcript (
        seq {id} NOT NULL PRIMARY KEY,
        transcript_id {text} NOT NULL,
        place {text} NOT NULL,
        workspace {text} NOT NULL,
        bot {text},
        conversation {text},
        thread {text},
        event_id {text} NOT NULL,
        run_id {text},
        role {text} NOT NULL,
        content {text},
        content_json {bytes},
        search {text} NOT NULL,
        created_ms BIGINT NOT NULL{vector}
    )

CREATE INDEX transcript_in_place ON transcript (place, seq) WHERE conversation IS NOT NULL

CREATE TABLE state (
        scope_key {text} NOT NULL,
        key {text} NOT NULL,
        workspace {text} NOT NULL,
        scope {text} NOT NULL,
        value {bytes} NOT NULL,
        version BIGINT NOT NULL,
        expires_ms BIGINT,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (scope_key, key)
    )

CREATE INDEX state_expiry ON state (expires_ms) WHERE expires_ms IS NOT NULL

CREATE TABLE storage (
        area_key {text} NOT NULL,
        key {text} NOT NULL,
        sha256 {text} NOT NULL,
        size_bytes BIGINT NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (area_key, key)
    ){small}

CREATE INDEX storage_content ON storage (sha256)

CREATE TABLE artifacts (
        artifact_id {text} NOT NULL,
        workspace {text} NOT NULL,
        run_id {text},
        runner_id {text},
        conversation {text},
        type {text} NOT NULL,
        mime_type {text},
        name {text},
        size_bytes BIGINT,
        sha256 {text},
        source {text} NOT NULL,
        created_ms BIGINT NOT NULL,
        expires_ms BIGINT,
        metadata {bytes} NOT NULL,
        PRIMARY KEY (workspace, artifact_id)
    )

CREATE INDEX artifacts_expiry ON artifacts (expires_ms) WHERE expires_ms IS NOT NULL

CREATE INDEX artifacts_content ON artifacts (sha256)

CREATE TABLE agents (
        workspace {text} NOT NULL,
        agent_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, agent_id)
    )

CREATE TABLE bindings (
        workspace {text} NOT NULL,
        binding_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, binding_id)
    )

CREATE TABLE meta (key {text} NOT NULL PRIMARY KEY, value {text} NOT NULL){small}
