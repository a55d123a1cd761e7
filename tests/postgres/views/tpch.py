"""TPC-H at a tiny scale that keeps changing: orders come and go with their lines, and rows of every table are updated,
deleted and put back at random, whatever refers to them."""

from __future__ import annotations

from pathlib import Path
from random import Random

from postgres.views.maintained import Connection, Inputs

from penstock.bench.tpch.queries import QUERIES
from penstock.bench.tpch.tables import TABLES, generate
from penstock.relation.schema import Column, Schema
from penstock.views import PostgresTyper, Relation

# Constants of the validation run that select next to nothing at this scale, and what selects something.
_REACHING: dict[str, list[tuple[str, str]]] = {
    "q2": [("p_size = 15", "p_size < 30"), ("'%BRASS'", "'%S%'"), ("'EUROPE'", "'AMERICA'")],
    "q3": [("LIMIT 10", "LIMIT 4")],
    "q5": [("'ASIA'", "'AFRICA'"), ("interval '1' year", "interval '4' year")],
    "q6": [("l_quantity < 24", "l_quantity < 40")],
    "q7": [("'FRANCE'", "'PERU'"), ("'GERMANY'", "'KENYA'"), ("'1996-12-31'", "'1998-12-31'")],
    "q8": [("'ECONOMY ANODIZED STEEL'", "'STANDARD POLISHED TIN'"), ("p_type =", "p_type <"), ("'BRAZIL'", "'PERU'")],
    "q10": [("LIMIT 20", "LIMIT 5"), ("interval '3' month", "interval '9' month")],
    "q11": [("'GERMANY'", "'KENYA'"), ("0.0001", "0.01")],
    "q14": [("interval '1' month", "interval '6' month")],
    "q16": [("'%Customer%Complaints%'", "'%a%e%'")],
    "q17": [("'MED BOX'", "'JUMBO PKG'"), ("p_brand =", "p_brand <="), ("p_container =", "p_container >"),
            ("0.2 *", "0.7 *")],
    "q18": [("> 300", "> 200"), ("LIMIT 100", "LIMIT 6")],
    "q19": [("p_brand =", "p_brand >="), ("p_size BETWEEN 1 AND 5", "p_size BETWEEN 1 AND 50"),
            ("'SM CASE', 'SM BOX', 'SM PACK', 'SM PKG'", "'SM CASE', 'JUMBO BOX', 'LG PACK', 'WRAP PKG', 'MED BAG'")],
    "q20": [("'forest%'", "'%e%'"), ("'CANADA'", "'KENYA'"), ("0.5 *", "60 *")],
    "q21": [("'SAUDI ARABIA'", "'PERU'"), ("LIMIT 100", "LIMIT 3")],
    "q22": [("'13', '31'", "'13', '10', '20', '25', '31'")],
}  # fmt: skip


def tiny(name: str) -> str:
    """The query with constants that reach rows of the tiny tables."""
    sql = QUERIES[name]
    for old, new in _REACHING.get(name, []):
        assert old in sql, f"{name} has no {old}"
        sql = sql.replace(old, new)
    return sql


# What an update does to the rows it picks, by table; some values are ones that the queries ask for.
_UPDATES: dict[str, list[str]] = {
    "region": ["r_comment = 'new'", "r_name = CASE r_name WHEN 'ASIA' THEN 'AFRICA' ELSE 'ASIA' END"],
    "nation": ["n_regionkey = (n_regionkey + 1) % 5", "n_name = 'KENYA'", "n_comment = NULL"],
    "supplier": ["s_nationkey = (s_nationkey + 7) % 25", "s_acctbal = -s_acctbal", "s_comment = 'Customer Complaints'",
                 "s_nationkey = 17", "s_nationkey = 14"],
    "part": ["p_size = 1 + p_size % 50", "p_brand = 'Brand#23'", "p_container = 'MED BOX'", "p_type = 'PROMO TIN'",
             "p_name = 'forest green'", "p_retailprice = NULL"],
    "partsupp": ["ps_supplycost = ps_supplycost * 0.9", "ps_availqty = ps_availqty * 3", "ps_supplycost = NULL"],
    "customer": ["c_acctbal = -c_acctbal", "c_mktsegment = 'BUILDING'", "c_nationkey = 17", "c_nationkey = NULL",
                 "c_phone = '13-' || substr(c_phone, 4)"],
    "orders": ["o_orderdate = o_orderdate + 60", "o_comment = 'special requests'", "o_orderstatus = 'F'",
               "o_custkey = 1 + o_custkey % 150", "o_orderpriority = '1-URGENT'", "o_totalprice = o_totalprice + 1"],
    "lineitem": ["l_quantity = l_quantity + 9", "l_shipdate = l_shipdate + 30", "l_suppkey = 1 + l_suppkey % 10",
                 "l_receiptdate = l_commitdate + 1", "l_returnflag = 'R'", "l_discount = NULL",
                 "l_extendedprice = l_extendedprice * 2"],
}  # fmt: skip


class Tpch(Inputs):
    """The tables at about 500 orders."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        super().__init__(connection, [_relation(connection, place) for place in range(len(TABLES))])
        for table, file in generate(folder, 0.001).items():
            columns = ", ".join(name for name, _ in next(t for t in TABLES if t.name == table).columns)
            with connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT csv, HEADER)") as copy:
                copy.write(file.read_bytes())
        self.connection.execute(
            "DELETE FROM lineitem WHERE l_orderkey % 3 > 0; DELETE FROM orders WHERE o_orderkey % 3 > 0"
        )
        # With as few suppliers as these, the generator gives some keys of partsupp twice.
        self.connection.execute(
            "DELETE FROM partsupp a USING partsupp b "
            "WHERE (a.ps_partkey, a.ps_suppkey) = (b.ps_partkey, b.ps_suppkey) AND a.ctid > b.ctid"
        )
        for table in TABLES:
            self.connection.execute(f"INSERT INTO z_{table.name} SELECT *, 1, 0 FROM {table.name}")
            self.connection.execute(f"CREATE INDEX ON {table.name} ({table.columns[0][0]})")
            self.connection.execute(f"ANALYZE {table.name}; ANALYZE z_{table.name}")
        self.connection.execute("CREATE INDEX ON lineitem (l_partkey)")

    def change(self, random: Random) -> frozenset[str]:
        """One round; the tables that changed."""
        self.round += 1
        self.connection.execute("UPDATE the_round SET n = %s", [self.round])
        changed: set[str] = set()
        if random.random() < 0.8:
            changed |= self._new_orders(random)
        if random.random() < 0.8:
            changed |= self._removed_orders(random)
        for table in random.sample(sorted(_UPDATES), random.randint(0, 4)):
            self._update(random, table, random.choice(_UPDATES[table]))
            changed.add(table)
        if random.random() < 0.3:
            table = random.choice(["customer", "part", "supplier", "partsupp", "lineitem"])
            self._delete(table, f"ctid IN ({self._pick(random, table, 'ctid', 2)})")
            changed.add(table)
        return frozenset(changed)

    def _pick(self, random: Random, table: str, column: str, rows: int) -> str:
        return f"SELECT {column} FROM {table} ORDER BY md5({random.randint(0, 10**9)} || {table}::text) LIMIT {rows}"

    def _new_orders(self, random: Random) -> set[str]:
        """RF1: orders like those that are there, of other dates and prices, with their lines."""
        offset, days = 10_000 * self.round, random.randint(-200, 200)
        picked = self._pick(random, "orders", "o_orderkey", 8)
        self.connection.execute(
            f"CREATE TEMP TABLE picked AS SELECT * FROM orders WHERE o_orderkey IN ({picked});"
            f"CREATE TEMP TABLE lines AS SELECT * FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM picked);"
            f"UPDATE picked SET o_orderkey = o_orderkey + {offset}, o_orderdate = o_orderdate + {days},"
            f" o_totalprice = o_totalprice + {self.round} + o_orderkey % 7;"
            f"UPDATE lines SET l_orderkey = l_orderkey + {offset}, l_shipdate = l_shipdate + {days},"
            f" l_extendedprice = l_extendedprice + {self.round}, l_receiptdate = l_receiptdate + {days}"
        )
        self._put("orders", "picked")
        self._put("lineitem", "lines")
        return {"orders", "lineitem"}

    def _removed_orders(self, random: Random) -> set[str]:
        """RF2."""
        keys = self.connection.execute(self._pick(random, "orders", "o_orderkey", 6)).fetchall()
        listed = ", ".join(str(key) for (key,) in keys) or "NULL"
        self._delete("lineitem", f"l_orderkey IN ({listed})")
        self._delete("orders", f"o_orderkey IN ({listed})")
        return {"orders", "lineitem"}

    def _update(self, random: Random, table: str, assignment: str) -> None:
        rows = self._pick(random, table, "ctid", 1 if table in ("region", "nation") else random.randint(1, 6))
        self.connection.execute(f"CREATE TEMP TABLE picked AS SELECT * FROM {table} WHERE ctid IN ({rows})")
        self._delete(table, f"ctid IN ({rows})")
        self.connection.execute(f"UPDATE picked SET {assignment}")
        self._put(table, "picked")

    def _delete(self, table: str, where: str) -> None:
        self.connection.execute(
            f"WITH gone AS (DELETE FROM {table} WHERE {where} RETURNING *) "
            f"INSERT INTO z_{table} SELECT *, -1, {self.round} FROM gone"
        )

    def _put(self, table: str, rows: str) -> None:
        self.connection.execute(
            f"INSERT INTO {table} SELECT * FROM {rows}; "
            f"INSERT INTO z_{table} SELECT *, 1, {self.round} FROM {rows}; DROP TABLE {rows}"
        )


def _relation(connection: Connection, place: int) -> Relation:
    table = TABLES[place]
    told = PostgresTyper(connection).describe(
        "SELECT " + ", ".join(f"NULL::{kind} AS {name}" for name, kind in table.columns)
    )
    columns = tuple(Column.of(c.name, c.pg, nullable=c.name not in table.key) for c in told)
    return Relation(table.name, Schema(columns, table.key))
