-- Full-text search over the transcript. Sizes of columns are not stored: a search counts the words of its results, and a
-- message costs a page less.

CREATE VIRTUAL TABLE transcript_search USING fts5(place, search, content = 'transcript', content_rowid = 'seq', columnsize = 0, tokenize = 'unicode61 remove_diacritics 0')

CREATE TRIGGER transcript_said AFTER INSERT ON transcript WHEN new.conversation IS NOT NULL BEGIN INSERT INTO transcript_search (rowid, place, search) VALUES (new.seq, new.place, new.search); END

CREATE TRIGGER transcript_changed AFTER UPDATE ON transcript WHEN new.conversation IS NOT NULL BEGIN INSERT INTO transcript_search (transcript_search, rowid, place, search) VALUES ('delete', old.seq, old.place, old.search); INSERT INTO transcript_search (rowid, place, search) VALUES (new.seq, new.place, new.search); END

CREATE TRIGGER transcript_forgotten AFTER DELETE ON transcript WHEN old.conversation IS NOT NULL BEGIN INSERT INTO transcript_search (transcript_search, rowid, place, search) VALUES ('delete', old.seq, old.place, old.search); END
