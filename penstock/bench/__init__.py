"""`penstock bench`: the figures in docs/benchmarks.md, measured as ratios in one run on this machine.

Nothing is imported here: what is measured in a process of its own (`capture/child.py`) has what it needs, and no Spark.
"""
