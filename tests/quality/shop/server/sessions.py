"""Who is logged in: sessions in signed cookies."""

import hashlib
import hmac


class SessionStore:
    """Reads and writes the session cookie."""

    def __init__(self, key):
        self._key = key

    def sign(self, value):
        return hmac.new(self._key, value, hashlib.sha256).hexdigest()

    def load(self, cookie):
        """The session that a cookie holds; None when its signature is wrong."""
        value, _, signature = cookie.partition(".")
        return value if hmac.compare_digest(signature, self.sign(value.encode())) else None
