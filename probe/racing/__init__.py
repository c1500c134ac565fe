"""What a race is made of: strategies by name, loaders with their settings, runs, and the result."""
