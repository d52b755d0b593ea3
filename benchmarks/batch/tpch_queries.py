"""What DuckDB runs: the columns of the tables, with days as text and money as floats, and the queries over them."""

TABLES = {
    "customer": "c_custkey, c_name, c_acctbal::DOUBLE AS c_acctbal, c_nationkey, c_address, c_phone, c_comment, c_mktsegment",
    "orders": "o_orderkey, o_custkey, o_orderdate::VARCHAR AS o_orderdate, o_shippriority",
    "lineitem": "l_orderkey, l_extendedprice::DOUBLE AS l_extendedprice, l_discount::DOUBLE AS l_discount, "
    "l_shipdate::VARCHAR AS l_shipdate, l_returnflag",
    "nation": "n_nationkey, n_name",
}
QUERIES = {
    "q3": """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM <customer>, <orders>, <lineitem>
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
            AND o_orderdate < '1995-03-15' AND l_shipdate > '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    "q10": """
        SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address, c_phone,
            c_comment
        FROM <customer>, <orders>, <lineitem>, <nation>
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= '1993-10-01'
            AND o_orderdate < '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY ALL ORDER BY revenue DESC LIMIT 20""",
}
