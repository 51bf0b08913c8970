"""Skills: folders with a `SKILL.md`, treated as untrusted content, stored by digest, and loaded in three steps."""
