"""Arrow tables in a wanted schema, for nothing where they have its types already.

A cast looks at every column, also at one that stays as it is: of a few rows, that is most of what a step takes.
"""

from __future__ import annotations

import pyarrow as pa


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """As `rows.cast(schema)`: the same names, its types, and no NULL where it has none.

    >>> t = pa.table({"a": [1, 2]})
    >>> fitted(t, pa.schema([pa.field("a", pa.int64(), nullable=False)])).schema.field("a").nullable
    False
    >>> fitted(t, pa.schema([("a", pa.int32())])).schema.types
    [DataType(int32)]
    """
    there = rows.schema
    if there.equals(schema):
        return rows
    if there.names == schema.names and there.types == schema.types:
        columns = rows.columns
        if all(field.nullable or not column.null_count for field, column in zip(schema, columns, strict=True)):
            return pa.Table.from_arrays(columns, schema=schema)
    return rows.cast(schema)
