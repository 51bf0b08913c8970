"""The knowledge process: stores documents, splits them into chunks, and finds chunks that match a question.

The host starts it on first use and talks to it over a socket pair (`bollard.wire.knowledge_frames`). It is
the only writer of its tables, and the only process that loads numpy, wordllama and pypdf.
"""
