-- Visits: the clicks of a user belong together until nothing comes for a minute.
SET 'sql-client.execution.result-mode' = 'table';

CREATE TABLE clicks (visitor STRING, url STRING, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'data/clicks.csv', 'format' = 'csv');

SELECT visitor, window_start, COUNT(*) AS pages, LISTAGG(url) AS path
FROM TABLE(SESSION(TABLE clicks PARTITION BY visitor, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY visitor, window_start, window_end;
