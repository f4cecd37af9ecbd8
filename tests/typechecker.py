"""The type checker that `tests/conftest.py` applies to `dse.model`: an int is accepted where a float is declared (PEP 484)."""

from beartype import BeartypeConf, beartype

check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))
