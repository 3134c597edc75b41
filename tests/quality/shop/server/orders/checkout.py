"""From a cart to a paid order."""

from server.orders.pricing import total_price
from server.orders.stock import reserve_stock


def check_out(cart, payment):
    """Reserve the goods, take the payment, write the order."""
    reserve_stock(cart)
    receipt = payment.charge(total_price(cart))
    return {"items": list(cart), "receipt": receipt}
