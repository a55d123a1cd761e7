"""How stream tables that run themselves are measured: how fresh they are under load, and what many of them cost."""

from penstock.bench.streams import dag, freshness

PARTS = {"freshness": freshness.run, "dag": dag.run}
