"""Reads numbers as people write them, if they can mean only one value.

"1,000" and "1.000" mean a thousand to some readers and one to others. An approved amount must not
depend on the reader, so such text is refused, and so are currency signs and exponents.
"""


def split_number(digits: str) -> tuple[str, str] | None:
    """Split an unsigned number into units and decimals.

    Args:
        digits: ASCII digits with commas and points, without a sign.

    Returns:
        The units and the decimals ("" for none); None if the text is not a number or is ambiguous.
    """
    if not digits.isascii():
        return None
    for mark in " '":
        # These only separate thousands, so 1 234,5 and 1'234.5 are unambiguous.
        if mark in digits:
            return _split_spaced(digits, mark)
    marks = [mark for mark in digits if not mark.isdigit()]
    if not marks:
        return (digits, "") if digits else None
    if any(mark not in ",." for mark in marks) or is_ambiguous(digits):
        return None
    last = marks[-1]
    if marks.count(last) > 1:
        groups, decimals = digits.split(last), ""
    else:
        # A mark that occurs once begins the decimals; only the other mark may come before it.
        grouped, _, decimals = digits.rpartition(last)
        groups = grouped.split("," if last == "." else ".")
        if not decimals:
            return None
    units = "".join(groups)
    first, *others = (len(group) for group in groups)
    grouped_rightly = not others or (1 <= first <= 3 and set(others) == {3})
    return (units, decimals) if grouped_rightly and units.isdigit() else None


def _split_spaced(digits: str, mark: str) -> tuple[str, str] | None:
    head, point, decimals = digits.replace(",", ".").partition(".")
    first, *others = head.split(mark)
    grouped = first.isdigit() and len(first) <= 3 and all(len(one) == 3 for one in others)
    whole = all(one.isdigit() for one in others) and (decimals.isdigit() if point else True)
    return (head.replace(mark, ""), decimals) if grouped and whole else None


def is_ambiguous(digits: str) -> bool:
    """Say whether a comma or point may separate thousands or begin the decimals."""
    for mark in ",.":
        head, found, tail = digits.partition(mark)
        if found and head.isdigit() and tail.isdigit():
            return len(tail) == 3 and len(head) <= 3 and head[0] != "0"
    return False
