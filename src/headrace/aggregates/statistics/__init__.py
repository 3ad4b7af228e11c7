"""Statistics of numbers: sums, means, variance, skewness, quantiles."""
