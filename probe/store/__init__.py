"""What a run leaves behind: the SQLite file, its schema and the questions asked of it."""
