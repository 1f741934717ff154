"""Which law a curve follows: constant, linear, n log n, or linear up to a bound, fitted by least squares of the relative error, and where it is off."""
import math
from dataclasses import dataclass

OFF = 0.2  # a point that is further from the law than this share of itself, and further than twice its standard error, is off it
SHAPES = {"constant": None, "linear": lambda x: x, "n log n": lambda x: x * math.log2(max(x, 2))}
LEVEL = 1.02  # the highest of points that are level, relative to the lowest
SIMPLER = 1.1  # a law with one more coefficient has to be this much closer
EXACT = 1e-6   # what the arithmetic itself is off


@dataclass
class Law:
    name: str
    base: float     # y = base + slope * shape(x)
    slope: float
    bound: float = math.inf
    residual: float = 0  # root of the mean squared relative error, per degree of freedom

    def at(self, x):
        return min(self.base + (self.slope * SHAPES[self.name](x) if self.slope else 0), self.bound)

    def formula(self, unit):
        if not self.slope:
            return f"{self.base:.3g} {unit}"
        shape = "n" if self.name == "linear" else "n log₂ n"
        bound = "" if self.bound == math.inf else f", at most {self.bound:.3g}"
        return f"{self.base:.3g} + {self.slope:.3g} {shape}{bound} {unit}"


def _solve(rows):
    """Least squares of (1/y) (y - base - slope * z) for rows (z, y), neither coefficient below 0."""
    weights = [1 / y ** 2 for _, y in rows]
    sums = [sum(w * term for w, term in zip(weights, terms)) for terms in zip(*((1, z, z * z, y, z * y) for z, y in rows))]
    one, z, zz, y, zy = sums
    determinant = one * zz - z * z
    base, slope = ((zz * y - z * zy) / determinant, (one * zy - z * y) / determinant) if determinant else (y / one, 0)
    if base < 0:
        base, slope = 0, zy / zz
    return (base, slope) if slope > 0 else (y / one, 0)


def _candidates(points):
    """(Law, number of its coefficients)"""
    for name, shape in SHAPES.items():
        base, slope = _solve([(shape(x) if shape else 0, y) for x, y in points])
        yield Law(name if slope else "constant", base, slope), 2 if slope else 1
    for end in range(3, len(points) - 2):  # three points or more that rise, three or more that are level
        level = [y for _, y in points[end:]]
        base, slope = _solve(points[:end])
        if slope and max(level) < LEVEL * min(level):
            yield Law("linear", base, slope, sum(level) / len(level)), 3


def fit(points):
    """The Law that fits points (x, y) best. A more complex one has to be closer by a tenth. A y of 0 was too small to be measured,
    and is taken for the least one that was not."""
    least = min((y for _, y in points if y > 0), default=1)
    points = [(x, max(y, least)) for x, y in points]
    best = None
    for law, coefficients in _candidates(points):
        squares = sum(((y - law.at(x)) / y) ** 2 for x, y in points)
        law.residual = math.sqrt(squares / max(1, len(points) - coefficients))
        if best is None or law.residual * SIMPLER + EXACT < best.residual:
            best = law
    return best


def off(law, points):
    """Those x of (x, y, standard error) that are off the law."""
    return [x for x, y, error in points if abs(y - law.at(x)) > max(OFF * y, 2 * error)]


def self_check():
    """Each law is found in its own points with noise of 5 %, and a break where one was planted."""
    noise = [1.03, 0.97, 1.05, 0.95, 1.02, 0.98]
    assert fit([(1, 0.0), (4, 2.0)]).base == fit([(1, 2.0), (4, 2.0)]).base and fit([(1, 0.0)]).name == "constant"
    for name, made in (("constant", lambda x: 3), ("linear", lambda x: 1 + x / 50), ("n log n", lambda x: x * math.log2(x) / 9)):
        points = [(10 ** k, made(10 ** k) * noise[k - 1]) for k in range(1, 7)]
        law = fit(points)
        assert law.name == name, (name, law)
        assert not off(law, [(x, y, 0) for x, y in points]), law
        broken = [(x, y * (1 if x < 10 ** 6 else 2), 0) for x, y in points]
        assert off(law, broken) == [10 ** 6], law
    assert fit([(10 ** k, 35.1) for k in range(1, 7)]).name == "constant"
    law = fit([(2 ** k, min(10 + 2 ** k, 26)) for k in range(1, 8)])
    assert [round(law.at(x), 9) for x in (8, 1000)] == [18, 26], law


if __name__ == "__main__":
    self_check()
