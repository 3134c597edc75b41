"""What long work stands on: callers, jobs, child processes, locks, memory."""
