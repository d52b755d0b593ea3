-- Changes of a database, as Debezium writes them: the rows that are left, and a lake table with the history.
SET 'sql-client.execution.result-mode' = 'table';

CREATE TABLE changes (id INT, item STRING, state STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'data/changes.json', 'format' = 'debezium-json');

SELECT id, item, state FROM changes;

-- A lake table that only grows keeps the history: each change is a row with its kind.
CREATE TABLE history (op STRING, id INT, item STRING, state STRING)
WITH ('connector' = 'filesystem', 'path' = 'lake/history', 'format' = 'parquet');

INSERT INTO history SELECT * FROM TO_CHANGELOG(input => TABLE changes);
