"""Asks people before something is done: what exactly, shown safely, decided once."""
