"""Prime factors, in bounded time."""

from __future__ import annotations

import functools

from gspmd.dialect.limits import MAX_TRIAL_DIVISOR


@functools.lru_cache(maxsize=4096)
def prime_factors(number: int) -> tuple[int, ...]:
    """The prime factors in ascending order, with multiplicity; none for 1.

    A rest without factors up to `MAX_TRIAL_DIVISOR` counts as one factor, even if it is a product of larger primes.
    """
    found: list[int] = []
    divisor = 2
    while divisor * divisor <= number and divisor <= MAX_TRIAL_DIVISOR:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1 if divisor == 2 else 2
    return (*found, number) if number > 1 else tuple(found)


@functools.lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """All products of prime factors, in ascending order."""
    found = {1}
    for factor in prime_factors(number):
        found |= {divisor * factor for divisor in found}
    return tuple(sorted(found))
