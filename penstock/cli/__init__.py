"""The command line: one file per command group, assembled in `main`.

Spark is imported and started only by the commands that need it.
"""
