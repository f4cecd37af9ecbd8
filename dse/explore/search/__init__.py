"""Searching the designs that a specification spans: question.py (the specification, read and checked), space.py (what may vary),
states.py and designs.py (what a design is worth), exhaustive.py, sampled.py and polish.py (how to look), outcome.py (what was found),
report.py (what it means)."""
