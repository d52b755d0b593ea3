-- An order that a producer sent twice counts once: the first row of each id.
SET 'sql-client.execution.result-mode' = 'table';

CREATE TABLE orders (id INT, buyer STRING, item STRING, quantity INT, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'filesystem', 'path' = 'data/orders.csv', 'format' = 'csv');

SELECT id, buyer, item, quantity FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at) AS place FROM orders
) WHERE place = 1;
