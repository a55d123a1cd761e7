-- A copy that met a value which its column's form cannot hold: all values are looked at before it starts again.
ALTER TABLE copies ADD COLUMN look boolean NOT NULL DEFAULT false;
