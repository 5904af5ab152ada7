"""The folder of a run: what was asked for, its units and records, notes, and parts of it put together."""
