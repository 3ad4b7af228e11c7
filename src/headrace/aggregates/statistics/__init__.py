"""Functions that compute with numbers: sums, means, spread, shape, quantiles."""
