"""Reduce a sweep of any size in constant memory, chunk by chunk, to a Pareto front, the best designs, or a summary.

`stream` evaluates the chunks and merges what a `reducer` keeps of each: `front`, `top`, or `summary`.
"""
