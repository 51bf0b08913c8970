"""Where rows are kept: SQLite, PostgreSQL or memory behind one boundary; and blobs, as files. Knows no meaning."""
