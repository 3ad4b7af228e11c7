"""Plans and runs the queries of an app: backlog, real time, and restarts."""
