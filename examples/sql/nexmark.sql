-- Nexmark's queries 1, 5 and 7 in small: bids in euros, the auction with most bids of a window, the highest bid of a window.
SET 'sql-client.execution.result-mode' = 'table';

CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/bids.csv', 'format' = 'csv');

SELECT auction, bidder, 0.908 * price AS euros FROM bid WHERE auction = 3;

CREATE TEMPORARY VIEW counts AS
SELECT auction, COUNT(*) AS n, window_start, window_end
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '20' SECOND))
GROUP BY auction, window_start, window_end;

SELECT window_end, auction, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, auction) AS place FROM counts
) WHERE place = 1;

SELECT b.auction, b.price, b.bidder
FROM bid AS b JOIN (
  SELECT MAX(price) AS top, window_end
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
) AS m ON b.price = m.top AND b.at BETWEEN m.window_end - INTERVAL '10' SECOND AND m.window_end;
