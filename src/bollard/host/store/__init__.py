"""Storage of rows (SQLite, PostgreSQL or memory, behind one boundary) and of blobs as files. Does not interpret
them."""
