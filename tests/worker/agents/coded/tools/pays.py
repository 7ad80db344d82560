"""Code of CX Agent Studio."""


def pays(who: str) -> dict:
    """Pays somebody, if that is approved."""
    try:
        return {"paid": tools.pay({"to": who}).json()["paid"]}  # noqa: F821 -- the runtime has it
    except PermissionError as error:
        return {"refused": str(error)}
