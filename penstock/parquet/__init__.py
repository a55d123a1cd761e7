"""Parquet files of many rows, written nearly twice as fast as by Arrow: plain columns only, few encodings.

Any reader of Parquet reads them. `docs/adr/029` says why they are not left to Arrow.
"""
