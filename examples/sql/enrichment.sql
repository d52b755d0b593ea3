-- Orders with the price of their time: each order meets the version of the price that held when it came.
SET 'sql-client.execution.result-mode' = 'table';

CREATE TABLE orders (
  id INT, buyer STRING, item STRING, quantity INT, at TIMESTAMP(3), WATERMARK FOR at AS at
) WITH ('connector' = 'filesystem', 'path' = 'data/orders.csv', 'format' = 'csv');

CREATE TABLE prices (
  item STRING, price DECIMAL(10, 2), since TIMESTAMP(3), WATERMARK FOR since AS since, PRIMARY KEY (item) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = 'data/prices.csv', 'format' = 'csv');

SELECT o.id, o.buyer, o.quantity * p.price AS total
FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.at AS p ON o.item = p.item;
