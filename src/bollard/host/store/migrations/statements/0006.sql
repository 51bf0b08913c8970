-- Webhook routes, schedules, bots and subscriptions that people save.

CREATE TABLE hooks (
        workspace {text} NOT NULL,
        hook_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, hook_id)
    )

CREATE TABLE schedules (
        workspace {text} NOT NULL,
        schedule_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, schedule_id)
    )

CREATE TABLE bots (
        workspace {text} NOT NULL,
        bot_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, bot_id)
    )

CREATE TABLE subscriptions (
        workspace {text} NOT NULL,
        subscription_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, subscription_id)
    )
