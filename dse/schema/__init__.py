"""What a user may write in YAML: accelerators, model options, sweeps, searches and reductions, as frozen pydantic models."""
