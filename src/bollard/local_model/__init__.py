"""A real model in a process of its own: small, local, behind OpenAI's chat format. Not part of the host, which reaches
it over loopback like any other provider."""
