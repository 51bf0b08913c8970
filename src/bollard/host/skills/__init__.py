"""Skills: folders with a `SKILL.md`, read with suspicion, kept by the digest of their content, shown in three steps."""
