"""Helper processes of the host (journal, knowledge, MCP bridge): how one is started, spoken to and ended.

Imports nothing here: the journal process loads `host_link` alone and stays small.
"""
