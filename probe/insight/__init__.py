"""What the numbers mean: pure functions from arrays to answers. No SQL, no torch."""
