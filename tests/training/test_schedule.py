"""The schedule by hand, and rewinding to its end."""

import numpy as np

from dse.training.schedule import learning_rates, rewound_rates


def test_rates_rise_for_a_tenth_and_fall_to_zero():
    rates = learning_rates(10, 10, 2.0)
    assert rates.shape == (10, 10)
    np.testing.assert_allclose(rates[0], 2 * (np.arange(10) + 0.5) / 10, rtol=1e-6)
    flat = rates.ravel()
    assert (np.diff(flat[10:]) < 0).all()
    assert 0 < flat[-1] < 0.001
    np.testing.assert_allclose(flat[54] + flat[55], 2.0, rtol=1e-5)  # half-way down at 0.55


def test_a_pruned_network_is_trained_with_the_rates_of_the_last_epochs():
    np.testing.assert_array_equal(rewound_rates(10, 4, 3, 1.0), learning_rates(10, 3, 1.0)[6:])
    np.testing.assert_array_equal(rewound_rates(10, 10, 3, 1.0), learning_rates(10, 3, 1.0))
