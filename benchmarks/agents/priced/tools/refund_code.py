"""A tool of CX Agent Studio with one call inside."""


def refund_code(amount: float) -> dict:
    """Refunds an order.

    Args:
        amount: How much.
    """
    response = tools.refund({"amount": amount})  # noqa: F821
    return {"refunded": response.json()["refunded"]}
