"""The recording proxy: other people's agents in front of our models, every token on record.

An agent talks to it as to OpenAI or Anthropic (`forms`), each session under a key of its own
(`sessions`). A conversation is answered by an `Upstream`, and what was asked and sampled is
kept as a tree of calls. `export` turns that into training samples, `app` has the routes.
"""
