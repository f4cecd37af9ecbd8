"""Pairs NAME=VALUE, as options and tables state them."""

from collections.abc import Sequence

from dse.base.errors import InputError


def parse_pairs(texts: Sequence[str], example: str = "batch=32") -> dict[str, str]:
    """Split texts of the form NAME=VALUE; raises InputError if one is not of this form, or a name is given twice."""
    pairs = dict[str, str]()
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"'{text}' is not of the form NAME=VALUE", f"write it as in '{example}'")
        if name in pairs:
            raise InputError(f"'{name}' is given twice", "keep one")
        pairs[name] = value
    return pairs
