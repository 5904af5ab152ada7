"""The folder of a run: run spec, units, records, journals, and merging of shards."""
