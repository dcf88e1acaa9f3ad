"""The name under which `verifiers` finds our environments: it takes no dotted ones."""

from practicum.adapters.verifiers.env import PracticumEnv, PracticumTaskset
from practicum.adapters.verifiers.harness import ChatHarness

__all__ = ["ChatHarness", "PracticumEnv", "PracticumTaskset"]
