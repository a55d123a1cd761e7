"""Random changes of the tables of `queries.py`."""

from __future__ import annotations

from random import Random

from postgres.views.maintained import Inputs, Row

# As PostgreSQL writes them; with what is cut out wrongly by anything that does not read the text token by token.
_OBJECTS = [
    None, "{}", '{"a": 1.50, "b": "x\\"y"}', '{"a": "1, 2: {", "b": null}', '{"a": {"b": [1, 2.0]}, "é": true}',
    '{"b": "\\\\", "c d": "a\\n\\u0001"}',
]  # fmt: skip
_ARRAYS = [None, "[]", '[1, "a", null]', '["a, b", {"a": "b"}, [[]]]', '[true, 0.10, "é"]', '["a", "a"]']


class Workload:
    """Random rows with few values, NULLs and duplicates; updates and deletes of rows that are there."""

    def __init__(self, inputs: Inputs, random: Random) -> None:
        self.inputs = inputs
        self.random = random
        self.ids = 0

    def round(self, size: int) -> frozenset[str]:
        """Change a random subset of the tables; the names of those that changed."""
        names = [name for name in self.inputs.relations if self.random.random() < 0.6]
        changes = {name: found for name in names if (found := self._changes(name, size))}
        self.inputs.apply(changes)
        return frozenset(changes)

    def _changes(self, name: str, size: int) -> list[tuple[Row, int]]:
        rows, found = list(self.inputs.rows[name]), list[tuple[Row, int]]()
        grows = self.random.random() < 0.3
        for _ in range(self.random.randint(0, size)):
            choice = 1.0 if grows else self.random.random()
            if rows and choice < 0.5:
                old = rows.pop(self.random.randrange(len(rows)))
                found.append((old, -1))
                if choice < 0.25:
                    new = (old[0], *self._row(name)[1:])
                    rows.append(new)
                    found.append((new, 1))
            elif (row := self._row(name)) is not None and not self._taken(name, row, rows):
                rows.append(row)
                found.append((row, 1))
        return found

    def _row(self, name: str) -> Row:
        pick = self.random.choice
        small, text = [None, None, 0, 1, 1, 2], [None, "", "a", "b", "B", "é"]
        if name == "t":
            self.ids += 1
            return (self.ids, pick(small), pick([None, -1, 0, 5, 2**40]), pick([None, "0.00", "1.50", "-3.25", "9.99"]),
                    pick(text), pick([None, 0.1, 0.2, -0.0, 1e10, float("nan"), float("inf")]))  # fmt: skip
        if name == "d":
            self.ids += 1
            return (self.ids, pick(_OBJECTS), pick(_ARRAYS), pick([None, [], [1, None, 2], [1], [3, 3]]))
        if name == "u":
            return (pick(small), pick(small), pick(text))
        return (pick([0, 1, 2, 3, 4]), pick(text))

    def _taken(self, name: str, row: Row, rows: list[Row]) -> bool:
        return name == "w" and any(row[0] == other[0] for other in rows)
