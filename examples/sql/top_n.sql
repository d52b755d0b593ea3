-- A dashboard of the two auctions with the highest bids: places change as bids come. The changes are shown, then what is left.
CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = 'data/bids.csv', 'format' = 'csv');

CREATE TEMPORARY VIEW board AS
SELECT place, auction, top FROM (
  SELECT *, ROW_NUMBER() OVER (ORDER BY top DESC) AS place
  FROM (SELECT auction, MAX(price) AS top FROM bid GROUP BY auction)
) WHERE place <= 2;

SET 'sql-client.execution.result-mode' = 'changelog';
SELECT * FROM board;

SET 'sql-client.execution.result-mode' = 'table';
SELECT * FROM board;
