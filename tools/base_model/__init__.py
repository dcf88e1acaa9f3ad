"""The small base model of the quickstart: invented worlds, a corpus, a tokenizer, training."""
