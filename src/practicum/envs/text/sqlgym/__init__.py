"""SQLGym: answer questions about a SQLite database by writing SQL."""
