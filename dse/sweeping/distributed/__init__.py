"""Sweeps done in parts that are kept one by one: in this process, on the workers of an executor, or as one shard of many."""
