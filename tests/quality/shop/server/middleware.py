"""Steps that every request passes before it is answered."""

import secrets
import time

_seen = {}


def add_request_id(request):
    """Give the request an identifier, so that log lines can be put together."""
    request.headers["X-Request-Id"] = secrets.token_hex(8)
    return request


def limit_rate(request, per_minute=60):
    """Refuse clients that ask too often: at most `per_minute` requests in a sliding window."""
    now = time.monotonic()
    recent = [at for at in _seen.get(request.client, []) if now - at < 60]
    if len(recent) >= per_minute:
        raise PermissionError("too many requests")
    _seen[request.client] = [*recent, now]
    return request
