"""The demo: a small shop whose database changes all the time, and penstock keeping up with it."""
