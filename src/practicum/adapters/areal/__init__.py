"""AReaL: our agents and environments as its agent workflows and rollout workflows.

`agent` is played through AReaL's OpenAI-compatible proxy, `rollout` on the engine itself. Both are
named to AReaL by their dotted path and take the settings of `settings`.
"""
