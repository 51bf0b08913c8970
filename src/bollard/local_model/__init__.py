"""A small local model in a separate process, behind OpenAI's chat format. The host uses it like any other provider."""
