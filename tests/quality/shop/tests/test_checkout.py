from server.orders.checkout import check_out


def test_checkout_charges_the_total_price():
    assert check_out([], FakePayment())["receipt"] == 0


class FakePayment:
    def charge(self, amount):
        return amount
