-- A held pin is one of a piece of work under way, and goes with the process that does it (catalog/pins.py).
ALTER TABLE pins ADD COLUMN held boolean NOT NULL DEFAULT false;
