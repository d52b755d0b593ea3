-- Rows out of order count in the window of their time: the watermark waits three seconds for them before a window is final.
SET 'sql-client.execution.result-mode' = 'table';

CREATE TABLE readings (sensor STRING, n INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'data/late.csv', 'format' = 'csv');

SELECT window_end, COUNT(*) AS n, SUM(n) AS total
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(at), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
