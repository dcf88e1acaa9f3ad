"""Stands in for easyocr, which desktop-env imports and which would bring torch along.

Of desktop-env's evaluators one reads text in pictures; it says here that it cannot.
"""


class Reader:
    """Reads text in pictures, where the real package is installed."""

    def __init__(self, *_: object, **__: object) -> None:
        raise ImportError("easyocr is not installed here: pip install easyocr")
