"""The basis of long-running work: callers, jobs, child processes, locks, memory."""
