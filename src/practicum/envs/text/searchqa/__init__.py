"""SearchQA: answer questions by searching a collection of passages."""
