from server.auth import hash_password, verify_password


def test_a_password_is_verified_against_its_hash():
    assert verify_password("secret", hash_password("secret"))
