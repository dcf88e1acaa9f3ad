"""`python -m practicum`."""

from practicum.cli.main import run

run()
