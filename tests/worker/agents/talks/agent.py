"""An agent whose model streams word by word on request."""

from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

WORDS = ["It ", "is ", "done."]


def _say(text: str, *, partial: bool) -> LlmResponse:
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return LlmResponse(content=content, partial=partial)


class Talker(BaseLlm):
    """Says three words; with "N times", each of them N times."""

    model: str = "talker"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the words one by one, and then all of them, as ADK's own models do."""
        said = (llm_request.contents[-1].parts or [types.Part()])[0].text or ""
        count = int(said.split()[0]) if said[:1].isdigit() else 1
        for word in WORDS * count if stream else ():
            yield _say(word, partial=True)
        yield _say("".join(WORDS), partial=False)


root_agent = Agent(name="talks", model=Talker())
