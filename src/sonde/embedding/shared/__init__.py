"""The deep model in one process that all servers of a user share."""
