-- A model in a query: ML_PREDICT calls a function of Python for each row. Run it where sentiment.py can be imported.
SET 'sql-client.execution.result-mode' = 'table';

CREATE MODEL sentiment INPUT (review STRING) OUTPUT (label STRING, certainty DOUBLE)
WITH ('provider' = 'python', 'function' = 'sentiment:label');

CREATE TEMPORARY VIEW reviews AS
SELECT * FROM (VALUES (1, 'great tea'), (2, 'the jam was stale'), (3, 'it came on Monday')) AS t(id, review);

SELECT id, label, certainty FROM ML_PREDICT(TABLE reviews, MODEL sentiment, DESCRIPTOR(review));
