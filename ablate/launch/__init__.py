"""Places trials: checks placement before the start, then runs them by Ray Tune or by a local launcher."""
