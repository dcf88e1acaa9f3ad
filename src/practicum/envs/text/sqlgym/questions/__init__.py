"""Questions with gold queries, written from the annotations of a generated database."""
