from server.auth.passwords import hash_password, verify_password

__all__ = ["hash_password", "verify_password"]
