"""Names of functions in other dialects of SQL, for the hints of errors: each with the form in Flink's."""

from __future__ import annotations

_FORMS = {
    "ADD_MONTHS": "TIMESTAMPADD(MONTH, n, date)",
    "ANY_VALUE": "FIRST_VALUE(x)",
    "ARRAY_LENGTH ARRAY_SIZE SIZE": "CARDINALITY(array)",
    "CHARINDEX STRPOS": "LOCATE(part, text)",
    "COLLECT_LIST": "ARRAY_AGG(x)",
    "COLLECT_SET": "ARRAY_AGG(DISTINCT x)",
    "DATEADD": "TIMESTAMPADD(DAY, n, time)",
    "DATE_ADD DATE_SUB": "date + INTERVAL '1' DAY",
    "DATEDIFF DATE_DIFF": "TIMESTAMPDIFF(DAY, from, to)",
    "DATE_PART": "EXTRACT(DAY FROM time)",
    "DATE_TRUNC": "FLOOR(time TO DAY)",
    "EXPLODE": "CROSS JOIN UNNEST(array)",
    "FIRST": "FIRST_VALUE(x)",
    "FROM_JSON": "JSON_VALUE(text, '$.path' RETURNING INT)",
    "GETDATE SYSDATE": "CURRENT_TIMESTAMP",
    "GET_JSON_OBJECT JSON_EXTRACT JSON_EXTRACT_SCALAR": "JSON_VALUE(text, '$.path')",
    "GROUP_CONCAT STRING_AGG": "LISTAGG(text, ',')",
    "ISNULL": "IS NULL, or IFNULL(x, y)",
    "LAST": "LAST_VALUE(x)",
    "LCASE": "LOWER(text)",
    "LEN LENGTH": "CHAR_LENGTH(text)",
    "MEDIAN": "PERCENTILE(x, 0.5)",
    "MONTHS_BETWEEN": "TIMESTAMPDIFF(MONTH, from, to)",
    "NVL": "COALESCE(x, y)",
    "RANDOM": "RAND()",
    "REGEXP_LIKE RLIKE": "REGEXP(text, pattern)",
    "TO_CHAR": "DATE_FORMAT(time, 'yyyy-MM-dd')",
    "TO_JSON": "JSON_STRING(x)",
    "TO_NUMBER": "CAST(text AS DECIMAL(10, 2))",
    "UCASE": "UPPER(text)",
    "WEEKDAY": "DAYOFWEEK(date)",
}
OTHER_DIALECTS = {name: form for names, form in _FORMS.items() for name in names.split()}
