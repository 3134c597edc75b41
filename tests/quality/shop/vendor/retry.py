"""A copy of a small library: call a function again when it fails."""


def retry(function, attempts=3):
    for attempt in range(attempts):
        try:
            return function()
        except OSError:
            if attempt == attempts - 1:
                raise
    return None
