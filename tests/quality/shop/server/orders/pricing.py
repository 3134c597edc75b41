"""What an order costs: prices, discounts, tax."""

from decimal import Decimal

TAX = Decimal("0.19")


def apply_discount(price, percent):
    """The price less a discount, never below zero."""
    return max(price - price * percent / 100, Decimal(0))


def total_price(cart):
    """Sum of all items with tax, rounded to cents."""
    net = sum(item.price * item.count for item in cart)
    return (net * (1 + TAX)).quantize(Decimal("0.01"))
