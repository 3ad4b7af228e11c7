"""What came of predictions: outcomes, quality, drift, and models trained anew."""
