"""The APIs an agent may speak: each reads a request into an `Ask` and writes answers back."""
