"""Commands for events, runs, conversations and what runs leave behind."""
