"""Styles of curves."""

import pandas as pd

from dse.plot import style


def test_a_curve_has_one_style_in_all_panels():
    """Two networks with different methods: a colour stands for one (method, pattern) throughout."""
    rows = pd.DataFrame({"method": ["b", "a", "b"], "pattern": ["2:4", "2:4", "1:4"]})
    looks = style.curve_styles(rows)
    assert len({look["color"] for look in looks.values()}) == 3
    many = style.curve_styles(pd.DataFrame({"method": ["m"] * 21, "pattern": [f"1:{n}" for n in range(2, 23)]}))
    assert len({(look["color"], look["linestyle"]) for look in many.values()}) == 21
