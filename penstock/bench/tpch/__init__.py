"""TPC-H: its tables, its queries with the parameters of the validation run, and its data by `tpchgen-cli`."""
