"""How to check out a cart from a script."""

from server.orders.checkout import check_out

print(check_out([], payment=None))
