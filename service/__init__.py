"""The server of the solver: HTTP, jobs, store and command line."""
