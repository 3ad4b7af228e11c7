"""Worker threads of a process: started, reported, restarted and stopped by one group."""
