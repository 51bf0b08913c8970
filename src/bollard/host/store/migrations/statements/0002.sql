-- The saved resources of the surface, the outbox, data beside the log, and the list of conversations.
--
-- The table kept is not a projection: its data must not be in the log, so it cannot be rebuilt. The table conversations
-- is a projection of the transcript, filled with the messages that exist already.

CREATE TABLE workspaces (
        workspace {text} NOT NULL,
        workspace_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, workspace_id)
    )

CREATE TABLE users (
        workspace {text} NOT NULL,
        user_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, user_id)
    )

CREATE TABLE keys (
        workspace {text} NOT NULL,
        key_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, key_id)
    )

CREATE TABLE actors (
        workspace {text} NOT NULL,
        actor_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, actor_id)
    )

CREATE TABLE channels (
        workspace {text} NOT NULL,
        channel_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, channel_id)
    )

CREATE TABLE plugins (
        workspace {text} NOT NULL,
        plugin_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, plugin_id)
    )

CREATE TABLE runtimes (
        workspace {text} NOT NULL,
        runtime_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, runtime_id)
    )

CREATE TABLE outbox (
        delivery_id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        channel {text} NOT NULL,
        target {text} NOT NULL,
        run_id {text} NOT NULL,
        event_id {text} NOT NULL,
        message_key {text} NOT NULL,
        preview BOOLEAN NOT NULL,
        record_id BIGINT NOT NULL,
        max_message_size BIGINT,
        status {text} NOT NULL,
        attempts BIGINT NOT NULL,
        due_ms BIGINT NOT NULL,
        messages {bytes} NOT NULL,
        reason {text},
        created_ms BIGINT NOT NULL,
        updated_ms BIGINT NOT NULL
    ){small}

CREATE INDEX outbox_open ON outbox (record_id) WHERE status IN ('queued', 'started', 'shown')

CREATE INDEX outbox_in_order ON outbox (workspace, record_id)

CREATE INDEX outbox_of_channel ON outbox (workspace, channel, record_id)

CREATE TABLE kept (
        kind {text} NOT NULL,
        workspace {text} NOT NULL,
        id {text} NOT NULL,
        body {bytes} NOT NULL,
        expires_ms BIGINT,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (kind, workspace, id)
    )

CREATE INDEX kept_expiry ON kept (expires_ms) WHERE expires_ms IS NOT NULL

CREATE TABLE conversations (
        place {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        bot {text},
        conversation {text} NOT NULL,
        thread {text},
        last_seq BIGINT NOT NULL,
        last_ms BIGINT NOT NULL
    ){small}

CREATE INDEX conversations_in_order ON conversations (workspace, last_seq)

INSERT INTO conversations (place, workspace, bot, conversation, thread, last_seq, last_ms) SELECT place, workspace, bot, conversation, thread, seq, created_ms FROM transcript WHERE seq IN (SELECT max(seq) FROM transcript WHERE conversation IS NOT NULL GROUP BY place)
