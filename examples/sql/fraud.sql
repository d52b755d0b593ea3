-- A card that is tested with small payments, then used for a large one within ten seconds.
SET 'sql-client.execution.result-mode' = 'table';

CREATE TABLE payments (card STRING, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'filesystem', 'path' = 'data/payments.csv', 'format' = 'csv');

SELECT card, tests, amount, at FROM payments
MATCH_RECOGNIZE (
  PARTITION BY card ORDER BY at
  MEASURES COUNT(T.amount) AS tests, L.amount AS amount, L.at AS at
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (T{2,} L) WITHIN INTERVAL '10' SECOND
  DEFINE T AS T.amount < 10, L AS L.amount > 500
);
