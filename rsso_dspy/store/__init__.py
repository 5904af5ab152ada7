"""The folder of a run: spec, units, logs, commands, and merging of shards."""
