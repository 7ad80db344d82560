"""Writes a number with its noun."""


def counted(number: int, noun: str, several: str = "") -> str:
    """Return a number with its noun: "1 request", "2,000 requests".

    Args:
        number: The number.
        noun: The noun for one.
        several: The noun for other numbers; the default is the noun with an s.
    """
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"
