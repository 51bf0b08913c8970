-- Models and knowledge bases. The usage of a run's model calls is JSON, and null if it made none.

CREATE TABLE models (
        workspace {text} NOT NULL,
        model_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, model_id)
    )

CREATE TABLE kbs (
        workspace {text} NOT NULL,
        kb_id {text} NOT NULL,
        revision BIGINT NOT NULL,
        body {bytes} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, kb_id)
    )

ALTER TABLE runs ADD COLUMN usage {text}
