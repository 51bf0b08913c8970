"""The tools that come with the host: what each is, and who carries it out. They know nothing of policy."""
