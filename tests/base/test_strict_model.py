"""Schemas: copies with other values."""

from functools import cached_property

from dse.base.strict_model import StrictModel


class Square(StrictModel):
    side: float

    @cached_property
    def area(self) -> float:
        return self.side**2


def test_a_copy_with_other_values_computes_its_properties_again():
    square = Square(side=2)
    assert square.area == 4
    larger = square.model_copy(update={"side": 3})
    assert (larger.area, square.area) == (9, 4)
