"""Worker processes: started, watched, restarted and quarantined. What a run is, they do not know."""
