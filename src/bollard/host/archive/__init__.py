"""Archives: zip files of ours, written whole and read with suspicion. Knows members and digests, no rows."""
