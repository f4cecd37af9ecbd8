"""Searching the designs that a specification spans: question.py (the specification, read and checked), space.py (what may vary),
states.py, variant_choice.py, over_networks.py and designs.py (what a design reaches), exhaustive.py, sampled.py and polish.py (how designs
are proposed), outcome.py and simplicity.py (which of them are kept and reported), report.py (what they mean)."""
