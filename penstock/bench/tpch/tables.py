"""The eight tables of TPC-H with their keys; their rows are made by `tpchgen-cli`, the same for the same scale."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[tuple[str, str], ...]  # name, PostgreSQL type
    key: tuple[str, ...]

    @property
    def ddl(self) -> str:
        """CREATE TABLE with its primary key."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        return f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({', '.join(self.key)}))"


def _table(name: str, key: str, columns: str) -> Table:
    pairs = (column.strip().split(" ", 1) for column in columns.split(";"))
    return Table(name, tuple((column, kind) for column, kind in pairs), tuple(key.split()))


TABLES: tuple[Table, ...] = (
    _table("region", "r_regionkey", "r_regionkey integer; r_name char(25); r_comment varchar(152)"),
    _table(
        "nation",
        "n_nationkey",
        "n_nationkey integer; n_name char(25); n_regionkey integer; n_comment varchar(152)",
    ),
    _table(
        "supplier",
        "s_suppkey",
        "s_suppkey integer; s_name char(25); s_address varchar(40); s_nationkey integer; s_phone char(15); "
        "s_acctbal numeric(15,2); s_comment varchar(101)",
    ),
    _table(
        "part",
        "p_partkey",
        "p_partkey integer; p_name varchar(55); p_mfgr char(25); p_brand char(10); p_type varchar(25); p_size integer; "
        "p_container char(10); p_retailprice numeric(15,2); p_comment varchar(23)",
    ),
    _table(
        "partsupp",
        "ps_partkey ps_suppkey",
        "ps_partkey integer; ps_suppkey integer; ps_availqty integer; ps_supplycost numeric(15,2); "
        "ps_comment varchar(199)",
    ),
    _table(
        "customer",
        "c_custkey",
        "c_custkey integer; c_name varchar(25); c_address varchar(40); c_nationkey integer; c_phone char(15); "
        "c_acctbal numeric(15,2); c_mktsegment char(10); c_comment varchar(117)",
    ),
    _table(
        "orders",
        "o_orderkey",
        "o_orderkey bigint; o_custkey integer; o_orderstatus char(1); o_totalprice numeric(15,2); o_orderdate date; "
        "o_orderpriority char(15); o_clerk char(15); o_shippriority integer; o_comment varchar(79)",
    ),
    _table(
        "lineitem",
        "l_orderkey l_linenumber",
        "l_orderkey bigint; l_partkey integer; l_suppkey integer; l_linenumber integer; l_quantity numeric(15,2); "
        "l_extendedprice numeric(15,2); l_discount numeric(15,2); l_tax numeric(15,2); l_returnflag char(1); "
        "l_linestatus char(1); l_shipdate date; l_commitdate date; l_receiptdate date; l_shipinstruct char(25); "
        "l_shipmode char(10); l_comment varchar(44)",
    ),
)


# child, its columns, parent
FOREIGN_KEYS: tuple[tuple[str, str, str], ...] = (
    ("nation", "n_regionkey", "region"),
    ("supplier", "s_nationkey", "nation"),
    ("customer", "c_nationkey", "nation"),
    ("partsupp", "ps_partkey", "part"),
    ("partsupp", "ps_suppkey", "supplier"),
    ("orders", "o_custkey", "customer"),
    ("lineitem", "l_orderkey", "orders"),
    ("lineitem", "l_partkey", "part"),
    ("lineitem", "l_suppkey", "supplier"),
    ("lineitem", "l_partkey, l_suppkey", "partsupp"),
)


def generate(folder: Path, scale: float) -> dict[str, Path]:
    """A CSV file per table, with a header line."""
    beside = Path(sys.executable).with_name("tpchgen-cli")
    program = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if program is None:
        raise ConfigError("tpchgen-cli is not installed", hint="Run `make setup`, which installs it into .venv.")
    subprocess.run(
        [program, "csv", "-s", str(scale), "--output-dir", str(folder), "--quiet"], check=True, capture_output=True
    )
    return {table.name: folder / f"{table.name}.csv" for table in TABLES}
