"""Foundations that every package uses: errors with a file and a line, YAML, units, the catalogue, and atomic writes."""
