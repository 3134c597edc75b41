"""How many of each article are left."""


class OutOfStock(Exception):
    """Fewer articles are left than were asked for."""


def reserve_stock(cart, shelf=None):
    """Take the articles from the shelf, or raise and take none."""
    shelf = shelf or {}
    for item in cart:
        if shelf.get(item.name, 0) < item.count:
            raise OutOfStock(item.name)
    for item in cart:
        shelf[item.name] -= item.count
