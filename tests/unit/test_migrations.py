"""Migrations are applied in the order of their names and remembered by their place in it."""

from penstock.catalog.store import migrations


def test_a_migration_s_number_is_its_place():
    numbers = [int(name.partition("_")[0]) for name, _ in migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
