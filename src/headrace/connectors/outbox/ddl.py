"""The SQL that creates an outbox table."""

DDL_TEMPLATE = """\
-- Written in the transaction of the business change; `headrace outbox` sends each row and then removes it.
CREATE TABLE IF NOT EXISTS {table} (
    seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- the order of rows of one key; leave CACHE at 1
    id      text NOT NULL UNIQUE DEFAULT gen_random_uuid()::text,
    stream  text NOT NULL,                                     -- the stream, or any topic
    key     text NOT NULL,                                     -- rows of one key stay in order
    payload jsonb NOT NULL,                                    -- the event; readers use its own id
    created timestamptz NOT NULL DEFAULT clock_timestamp(),
    parked  text                                               -- why it cannot be sent, if it cannot
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS {index} ON {table} (seq) WHERE parked IS NULL;

-- INSERT INTO {table} (stream, key, payload) VALUES ('orders', 'o-17', '{{"id": "e-1", "order_id": "o-17", …}}');
"""


def outbox_ddl(table: str) -> str:
    """The statements that create a table of this name, if it does not exist."""
    parts = [part.replace('"', '""') for part in table.split(".")]
    return DDL_TEMPLATE.format(table=".".join(f'"{part}"' for part in parts), index=f'"{parts[-1]}_waiting"')
