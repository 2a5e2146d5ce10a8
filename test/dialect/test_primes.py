"""Factors of numbers."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspmd.dialect.primes import divisors, prime_factors


@given(st.integers(1, 2**62))
def test_factors_multiply_to_the_number(number: int) -> None:
    factors = prime_factors(number)
    assert math.prod(factors) == number
    assert list(factors) == sorted(factors)
    assert 1 not in factors


@given(st.integers(1, 3000))
def test_divisors_are_those_that_leave_no_rest(number: int) -> None:
    assert divisors(number) == tuple(d for d in range(1, number + 1) if number % d == 0)
    assert all(divisors(factor) == (1, factor) for factor in prime_factors(number))


@pytest.mark.parametrize("number", [2**31 - 1, 1000000007, 2**61 - 1, (2**31 - 1) * 1000000007])
def test_what_has_no_small_factor_is_one_piece(number: int) -> None:
    started = time.process_time()
    assert prime_factors(number) == (number,)
    assert time.process_time() - started < 1
