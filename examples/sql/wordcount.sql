-- Counts words: a count that grows, as a stream has it. The result develops; what is shown is what is left.
SET 'sql-client.execution.result-mode' = 'table';

CREATE TEMPORARY VIEW lines AS SELECT * FROM (VALUES ('to be or not to be'), ('that is the question'), ('to do')) AS t(line);

SELECT word, COUNT(*) AS n
FROM lines CROSS JOIN UNNEST(SPLIT(line, ' ')) AS words(word)
GROUP BY word
HAVING COUNT(*) > 1;
