# SPDX-License-Identifier: Apache-2.0
"""The CPI threshold of a latency-critical server, from samples of a time without interference.

The source (Padala, 2020, 3.1.2 and 4.1.2) fits a Gaussian mixture with scikit-learn, and does not
say how the threshold follows from it. Ours: of the mixtures with one to five components the one
with the lowest Bayesian information criterion; of its components that hold at least a tenth of the
samples, the highest mean plus two standard deviations.
"""

import math
from collections.abc import Sequence

MOST_COMPONENTS = 5
LEAST_WEIGHT = 0.1
DEVIATIONS = 2.0
LEAST_SAMPLES = 20


class TooFewSamples(ValueError):
    """Nothing can be learned of so few."""


class NoLibrary(Exception):
    """scikit-learn is not installed here."""


def threshold_of(cpis: Sequence[float]) -> float:
    """Raises TooFewSamples, NoLibrary."""
    if len(cpis) < LEAST_SAMPLES:
        raise TooFewSamples(f"{len(cpis)} samples are too few: give at least {LEAST_SAMPLES}")
    # Imported here: it takes a second, and nothing else of the agent needs it.
    try:
        import numpy
        from sklearn.mixture import GaussianMixture
    except ImportError as exc:
        raise NoLibrary(
            f"learning a threshold needs scikit-learn ({exc}): install nova-vp[learn], for example "
            'with `pip install "nova-vp[learn]"`'
        ) from exc
    column = numpy.array(cpis).reshape(-1, 1)
    fitted = [
        GaussianMixture(number, random_state=0).fit(column)
        for number in range(1, MOST_COMPONENTS + 1)
    ]
    best = min(fitted, key=lambda one: one.bic(column))
    return max(
        float(best.means_[n][0]) + DEVIATIONS * math.sqrt(float(best.covariances_[n][0][0]))
        for n, weight in enumerate(best.weights_)
        if weight >= LEAST_WEIGHT
    )
