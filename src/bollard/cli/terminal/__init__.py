"""Output for people and programs: tables, progress bars, prompts and renderers."""
