"""OSWorld and Windows Agent Arena task files, unchanged: set-up, and grading by their own code."""
