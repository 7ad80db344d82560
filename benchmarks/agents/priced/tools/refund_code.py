"""A tool of CX Agent Studio with one call."""


def refund_code(amount: float) -> dict:
    """Refunds an order.

    Args:
        amount: The amount to refund.
    """
    response = tools.refund({"amount": amount})  # noqa: F821
    return {"refunded": response.json()["refunded"]}
