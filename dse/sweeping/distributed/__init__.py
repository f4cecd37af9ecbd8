"""Evaluate a sweep as independent tasks: in this process, on the workers of an executor, or as one shard of many.

`run` starts workers and distributes the tasks; a `sink` evaluates them and stores what they give: `zarr_sink` all results,
`reduction_sink` a reduction.
"""
