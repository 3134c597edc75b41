"""Passwords are kept as salted hashes."""

import hashlib
import secrets


def hash_password(password):
    """A salted scrypt hash, safe to store."""
    salt = secrets.token_bytes(16)
    return salt + hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)


def verify_password(password, stored):
    """Whether a password is the one that was hashed, in constant time."""
    salt, digest = stored[:16], stored[16:]
    return secrets.compare_digest(
        digest, hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)
    )
