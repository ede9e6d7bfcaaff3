"""Quantiles of Student's distribution: how far a mean of few values may be off."""

from __future__ import annotations

from math import cos, exp, expm1, inf, log, pi, sin, sqrt
from statistics import NormalDist

_SMALLEST = 1e-300


def quantile(probability: float, freedom: float) -> float:
    """The value that Student's t exceeds, in either direction, with this probability.

    `freedom`: degrees of freedom, 1 or more, rounded down; inf is the normal distribution. Right to five digits or so:
    G. W. Hill, Algorithm 396, Communications of the ACM 13 (1970).
    """
    probability = max(probability, _SMALLEST)
    if probability >= 1:
        return 0.0
    normal = -NormalDist().inv_cdf(probability / 2)
    if freedom == inf:
        return normal
    n = float(max(1, int(freedom)))
    if n == 1:
        return cos(probability * pi / 2) / sin(probability * pi / 2)
    if n == 2:
        return sqrt(2 / (probability * (2 - probability)) - 2)
    return _hill(probability, n, normal)


def _hill(probability: float, n: float, normal: float) -> float:
    a = 1 / (n - 0.5)
    b = 48 / (a * a)
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * sqrt(a * pi / 2) * n
    y = exp(2 / n * log(d * probability))
    if y > 0.05 + a:  # near the middle: from the normal distribution's quantile
        x = -normal
        y = x * x
        if n < 5:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = expm1(a * y * y)
    else:
        y = ((1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1) * (n + 1) / (
            n + 2
        ) + 1 / y
    return sqrt(n * y)
