"""The engine in a simulated world: one integer seed is one run (see README.md)."""
