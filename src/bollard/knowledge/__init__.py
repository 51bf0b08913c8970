"""The process that keeps documents, cuts them into chunks, and finds those that answer a question.

The host starts it when it is first needed and speaks to it over a socket pair (`bollard.wire.knowledge_frames`). It is
the only writer of its tables, and the only process that loads numpy, wordllama and pypdf.
"""
