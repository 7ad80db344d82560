"""A workflow whose one node asks whether it may run, and raises after its effect."""

from google.adk.workflow import FunctionNode, Workflow
from siblings.agent import journal


def transfer() -> None:
    """Transfer the money, and fail right after."""
    journal({"transferred": 50})
    raise ValueError("the bank hung up")


node = FunctionNode(func=transfer, require_confirmation=True, rerun_on_resume=True)
root_agent = Workflow(name="raising_node", edges=[("START", node)])
