"""Every name of the vocabulary of CX Agent Studio, inside the sandbox."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.events.event import Event as AdkEvent

from signoff.worker.ces.translate import context_of
from worker.ces.studio import run, run_file

EVENTS: list[Any] = [
    {
        "signoff": "Event",
        "id": f"e{number}",
        "invocation_id": "i1",
        "author": author,
        "timestamp": 1,
        "content": {
            "signoff": "Content",
            "role": "user" if author == "user" else "model",
            "parts": [{"signoff": "Part", "text": text}],
        },
    }
    for number, (author, text) in enumerate(
        [("user", "hi"), ("shop", "hello"), ("user", "one"), ("user", "two"), ("shop", "ok")]
    )
]
CONTEXT = {
    "user_content": EVENTS[3]["content"],
    "invocation_id": "i1",
    "agent_name": "shop",
    "session_id": "s1",
    "function_call_id": "f1",
    "state": {"tier": "gold"},
    "events": EVENTS,
}

EXAMPLES: list[tuple[str, str, Any]] = [
    (
        "context",
        "return [context.invocation_id, context.agent_name, context.session_id]",
        ["i1", "shop", "s1"],
    ),
    ("function_call_id", "return context.function_call_id", "f1"),
    ("user_content", "return context.user_content.parts[0].text", "two"),
    ("variables", "context.variables['a'] = 1\nreturn context.state", {"tier": "gold", "a": 1}),
    ("same object", "return context.variables is context.state", True),
    (
        "get_variable",
        "return [get_variable('tier'), get_variable('x'), context.get_variable('x', 3)]",
        ["gold", None, 3],
    ),
    (
        "set_variable",
        "set_variable('a', 1)\ncontext.set_variable('b', 2)\nreturn context.state['a'] + context.state['b']",
        3,
    ),
    (
        "remove_variable",
        "remove_variable('tier')\nset_variable('a', 1)\ncontext.remove_variable('a')\nreturn context.state",
        {},
    ),
    ("last input", "return [part.text for part in context.get_last_user_input()]", ["one", "two"]),
    ("last output", "return [part.text for part in context.get_last_agent_output()]", ["ok"]),
    ("context parts", "return len(context.parts())", 5),
    (
        "CallbackContext",
        "c = CallbackContext(state={'a': 1}, agent_name='x')\nc.set_variable('b', 2)\nc.remove_variable('a')\nreturn [c.variables, c.get_variable('b'), c.parts(), c.get_last_user_input(), c.get_last_agent_output(), c.events, c.user_content]",
        [{"b": 2}, 2, [], [], [], [], None],
    ),
    (
        "ToolContext",
        "c = ToolContext(function_call_id='f', variables={'a': 1})\nreturn [c.function_call_id, c.state, c.invocation_id, c.session_id]",
        ["f", {"a": 1}, "", ""],
    ),
    (
        "Content",
        "c = Content(parts=[Part.from_text('a')], role='user')\nreturn [c.is_user(), c.is_model(), c.parts[0].text, c.role]",
        [True, False, "a", "user"],
    ),
    (
        "Part.text",
        "return [Part(text='a').text, Part.from_text(text='b').text_or_transcript()]",
        ["a", "b"],
    ),
    (
        "Part.function_call",
        "p = Part.from_function_call(name='f', args={'x': 1})\nreturn [p.has_function_call('f'), p.has_function_call('g'), p.has_function_response('f'), p.function_call.args, p.text]",
        [True, False, False, {"x": 1}, None],
    ),
    (
        "Part.function_response",
        "p = Part.from_function_response('f', {'output': 2})\nreturn [p.has_function_response('f'), p.function_response.response['output']]",
        [True, 2],
    ),
    (
        "Part.inline_data",
        "p = Part.from_inline_data('aGk=', 'text/plain')\nreturn [p.inline_data.raw_data.decode(), p.inline_data.mime_type]",
        ["hi", "text/plain"],
    ),
    (
        "Part.from_json",
        "import json\nb = Part.from_json(data='{\"a\": 1}').inline_data\nreturn [b.mime_type, json.loads(b.raw_data.decode())]",
        ["application/json", {"a": 1}],
    ),
    (
        "Part.from_agent_transfer",
        "p = Part.from_agent_transfer(agent='sales')\nreturn p.has_function_call('transfer_to_agent') and 'sales' in p.function_call.args.values()",
        True,
    ),
    (
        "Part.from_end_session",
        "p = Part.from_end_session(reason='bye', escalated=True)\nreturn [p.function_call.name, p.function_call.args]",
        ["end_session", {"reason": "bye", "session_escalated": True}],
    ),
    (
        "Part.from_customized_response",
        "import json\nb = Part.from_customized_response(content='c', enable_dtmf=True).inline_data\nreturn json.loads(b.raw_data.decode())",
        {
            "content": "c",
            "disableBargeIn": False,
            "enableDtmf": True,
            "dtmfFinishDigit": "#",
            "dtmfEndpointingTimeout": 3,
        },
    ),
    (
        "Part equality",
        "return [Part.from_text('a') == Part(text='a'), Part(text='a') == Part(text='b')]",
        [True, False],
    ),
    (
        "Blob",
        "b = Blob(display_name='n', data='aGk=', mime_type='text/plain')\nreturn [b.display_name, b.data.decode(), b.raw_data.decode(), b.mime_type, b.transcript()]",
        ["n", "aGk=", "hi", "text/plain", None],
    ),
    (
        "Blob.transcript",
        "p = Part(inline_data=Blob(data='', mime_type='audio/wav', transcript='said'))\nreturn [p.inline_data.transcript(), p.text_or_transcript()]",
        ["said", "said"],
    ),
    ("Blob.from_json", "return Blob.from_json('{}').raw_data.decode()", "{}"),
    (
        "Event",
        "e = context.events[0]\nreturn [e.id, e.invocation_id, e.author, e.timestamp, e.content.role, e.long_running_tool_ids, e.partial, e.turn_complete, e.error_code, e.error_message, e.interrupted, e.branch, e.grounding_metadata]",
        ["e0", "i1", "user", 1, "user", *[None] * 8],
    ),
    (
        "Event methods",
        "e = context.events[1]\nreturn [e.is_user(), e.is_agent(), e.is_agent('shop'), e.is_agent('x'), e.has_error(), e.parts()[0].text, Event(author='user').parts(), Event(error_code='E').has_error()]",
        [False, True, True, False, False, "hello", [], True],
    ),
    (
        "EventActions",
        "a = EventActions(escalate=True)\nreturn [a.skip_summarization, a.state_delta, a.artifact_delta, a.transfer_to_agent, a.escalate, a.requested_auth_configs, a.end_invocation]",
        [None, {}, {}, None, True, {}, None],
    ),
    ("Event.actions", "return context.events[0].actions.state_delta", {}),
    (
        "FunctionCall",
        "c = FunctionCall(id='1', name='f', args={})\nreturn [c.id, c.name, c.args]",
        ["1", "f", {}],
    ),
    (
        "FunctionResponse",
        "r = FunctionResponse(id='1', name='f', response={'error': 'e'})\nreturn [r.id, r.name, r.response['error']]",
        ["1", "f", "e"],
    ),
    (
        "declarations",
        "t = ToolDeclaration(function_declarations=[FunctionDeclaration(name='f')])\nreturn [t.function_declarations[0].name, Tool(name='t', description='d').name]",
        ["f", "t"],
    ),
    (
        "GenerateContentConfig",
        "c = GenerateContentConfig(system_instruction=Content(parts=[]), tools=[])\nc.hide_tool('f')\nreturn [c.excluded_tools, c.tools, c.system_instruction.parts]",
        [["f"], [], []],
    ),
    (
        "LlmRequest",
        "r = LlmRequest(model='m', contents=[Content(role='user')], config=GenerateContentConfig())\nreturn [r.model, r.contents[0].is_user(), r.config.excluded_tools]",
        ["m", True, None],
    ),
    (
        "LlmResponse",
        "r = LlmResponse.from_parts(parts=[Part.from_text('a')])\nr.partial = True\nreturn [r.content.parts[0].text, r.content.is_model(), r.partial, LlmResponse().content]",
        ["a", True, True, None],
    ),
    (
        "ExternalResponse",
        "r = ExternalResponse('{\"a\": 1}', 200, 'OK')\nr.raise_for_status()\nreturn [r.json(), r.text, r.status_code, r.reason, r.ok]",
        [{"a": 1}, '{"a": 1}', 200, "OK", True],
    ),
    (
        "ok",
        "return [ExternalResponse('', 399, '').ok, ExternalResponse('', 400, '').ok]",
        [True, False],
    ),
    (
        "not JSON",
        "try:\n    ExternalResponse('no', 200, 'OK').json()\nexcept ValueError:\n    return 'not JSON'",
        "not JSON",
    ),
    (
        "raise_for_status",
        "try:\n    ExternalResponse('', 404, 'Not Found').raise_for_status()\nexcept StatusError as e:\n    return [e.status_code, e.reason, str(e)]",
        [404, "Not Found", "404 Not Found"],
    ),
    (
        "StatusError",
        "try:\n    raise StatusError(503, 'Busy')\nexcept Exception as error:\n    return [isinstance(error, StatusError), error.status_code, error.reason]",
        [True, 503, "Busy"],
    ),
    (
        "variables as a dictionary",
        "v = context.variables\nv['a'] = v.get('a', 0) + 1\nv.update(b=2)\nv.setdefault('c', 3)\ndel v['tier']\nreturn ['a' in v, 'x' in v, sorted(v), len(v), [k for k, _ in v.items()], v.pop('b')]",
        [True, False, ["a", "b", "c"], 3, ["a", "b", "c"], 2],
    ),
    (
        "variables that are replaced",
        "context.variables = {'a': 1}\nseen = [context.state, get_variable('a')]\ncontext.state = {'b': 2}\nreturn [*seen, context.variables, context.variables is context.state]",
        [{"a": 1}, 1, {"b": 2}, True],
    ),
    (
        "a variable that is not there",
        "try:\n    remove_variable('x')\nexcept KeyError:\n    return get_variable('x', default=[])",
        [],
    ),
    (
        "raw_data that is set",
        "b = Blob(mime_type='text/plain')\nb.raw_data = b'hi'\nseen = b.data.decode()\nb.data = 'Ynll'\nreturn [seen, b.raw_data.decode()]",
        ["aGk=", "bye"],
    ),
    (
        "equality",
        "return [Event(id='1') == Event(id='1'), Event(id='1') == Event(id='2'), Content(parts=[Part(text='a')]) == Content(parts=[Part.from_text('a')]), Tool(name='a') == EventActions(), LlmRequest() == LlmRequest()]",
        [True, False, True, False, True],
    ),
    (
        "repr and str",
        "p = Part(text='a')\nreturn [repr(p), f'{p}', str(Content(parts=[p]))]",
        [
            "Part(function_call=None, function_response=None, text='a', inline_data=None)",
            "function_call=None function_response=None text='a' inline_data=None",
            "parts=[Part(function_call=None, function_response=None, text='a', inline_data=None)] role=None",
        ],
    ),
    (
        "isinstance, hasattr and callable",
        "return [isinstance(context, ToolContext), isinstance(Part(text='a'), Content), hasattr(Part, 'from_text'), hasattr(Part, 'from_nothing'), callable(tools.lookup), callable(Part), callable(1), bool(Content())]",
        [True, False, True, False, True, True, False, True],
    ),
    (
        "all of from_customized_response by keyword alone",
        "try:\n    Part.from_customized_response('c')\nexcept TypeError:\n    b = Part.from_customized_response(content='c', disable_barge_in=True, dtmf_finish_digit='*', dtmf_endpointing_timeout=9).inline_data\n    return [b.mime_type, b.raw_data.decode()[:40]]",
        ["application/json+agentResponse", '{"content": "c", "disableBargeIn": true,'],
    ),
    (
        "from_end_session by keyword alone",
        "try:\n    Part.from_end_session('bye')\nexcept TypeError:\n    return Part.from_end_session(reason='bye').function_call.args['session_escalated']",
        False,
    ),
    (
        "HttpMethod",
        "return [HttpMethod.GET.value, str(HttpMethod.POST), HttpMethod.PUT == 'PUT', HttpMethod.DELETE.name, HttpMethod.PATCH == HttpMethod.GET]",
        ["GET", "POST", True, "DELETE", False],
    ),
    (
        "HttpMethod.HEAD and OPTIONS",
        "return [str(HttpMethod.HEAD), HttpMethod.OPTIONS.value, HttpMethod.HEAD == 'HEAD']",
        ["HEAD", "OPTIONS", True],
    ),
    (
        "ces_public",
        "return [ces_public.Part.from_text('a').text, ces_public.LlmResponse.from_parts([ces_public.Part(text='b')]).content.parts[0].text, ces_public.Content is Content, isinstance(context, ces_public.ToolContext)]",
        ["a", "b", True, True],
    ),
    (
        "all names of ces_public",
        "return [n for n in 'AsyncTools Blob CallbackContext Content Event EventActions ExternalResponse FunctionCall FunctionDeclaration FunctionResponse GenerateContentConfig HttpMethod LlmRequest LlmResponse Part Requests StatusError Tool ToolContext ToolDeclaration Tools'.split() if not hasattr(ces_public, n)]",
        [],
    ),
    (
        "Requests, Tools and AsyncTools",
        "return [isinstance(ces_requests, Requests), isinstance(tools, Tools), isinstance(async_tools, AsyncTools), isinstance(tools, AsyncTools)]",
        [True, True, True, False],
    ),
    (
        "StatusError by keyword",
        "try:\n    raise StatusError(status_code=404, reason='Not Found')\nexcept StatusError as e:\n    return [e.status_code, e.reason]",
        [404, "Not Found"],
    ),
    (
        "ces_public.StatusError",
        "try:\n    raise ces_public.StatusError(reason='Busy', status_code=503)\nexcept ces_public.StatusError as e:\n    return [e.status_code, e.reason, isinstance(e, StatusError)]",
        [503, "Busy", True],
    ),
    (
        "Event.timestamp",
        "return [type(context.events[0].timestamp).__name__, Event(timestamp=7).timestamp]",
        ["int", 7],
    ),
    (
        "Event.long_running_tool_ids",
        "e = Event(long_running_tool_ids=['a', 'b', 'a'])\nreturn [type(e.long_running_tool_ids).__name__, sorted(e.long_running_tool_ids), 'a' in e.long_running_tool_ids, Event().long_running_tool_ids]",
        ["set", ["a", "b"], True, None],
    ),
    (
        "Part.from_audio",
        "import json\nb = Part.from_audio('gs://a.wav', interruptable=False).inline_data\nreturn [b.mime_type, json.loads(b.raw_data.decode())]",
        [
            "application/json+audio",
            {"audioUri": "gs://a.wav", "cancellable": False, "interruptable": False},
        ],
    ),
]


@pytest.mark.parametrize(
    ("code", "wanted"), [one[1:] for one in EXAMPLES], ids=[one[0] for one in EXAMPLES]
)
async def test_each_name_works_as_in_googles_runtime(code: str, wanted: Any) -> None:
    """Each name of the vocabulary is there, with its attributes and methods."""
    assert await run(code, context=CONTEXT) == wanted


@pytest.mark.parametrize("given", ["", "text='a', function_call=FunctionCall(name='f')"])
async def test_part_has_exactly_one_content(given: str) -> None:
    """A Part with no content, or with two, is an error."""
    assert await run(
        f"try:\n    Part({given})\nexcept ValueError as e:\n    return 'exactly one' in str(e)"
    )


async def test_tools_answer_with_an_external_response() -> None:
    """`tools.NAME(args)` returns an ExternalResponse; a failure at the host is not ok."""
    answer = {"response": {"text": '{"a": 1}', "status_code": 500, "reason": "broken"}}
    ended = await run_file(
        "def main():\n    r = tools.lookup({'id': 1})\n    return [r.json(), r.ok, r.reason]",
        answers={"tool": answer},
    )
    assert ended.result == [{"a": 1}, False, "broken"]


async def test_asynchronous_tools_are_polled() -> None:
    """`async_tools.NAME(args)` returns a callable, which returns the response when it exists."""
    ended = await run_file(
        "def main():\n    poll = async_tools.lookup({'id': 1})\n    return [callable(poll), poll().text, poll().text]",
        answers={
            "start": {"number": "0"},
            "poll": {"response": {"text": "done", "status_code": 200, "reason": "OK"}},
        },
    )
    assert ended.result == [True, "done", "done"]


@pytest.mark.parametrize("method", ["get", "post", "put", "delete", "patch", "head", "options"])
async def test_requests_go_out_by_every_method(method: str) -> None:
    """`ces_requests` has all HTTP methods, each with keyword arguments."""
    answer = {"response": {"text": "x", "status_code": 201, "reason": "Created"}}
    ended = await run_file(
        f"def main():\n    return ces_requests.{method}('https://x.example', headers={{'A': 'b'}}).status_code",
        answers={"http": answer},
    )
    assert ended.result == 201


async def test_rejected_call_raises_a_catchable_error() -> None:
    """A rejected call raises a PermissionError with the reason, which code can catch."""
    ended = await run_file(
        "def main():\n    try:\n        tools.lookup({})\n    except PermissionError as e:\n        return str(e)",
        answers={"tool": {"refused": "too much"}},
    )
    assert ended.result == "too much"


async def test_an_unknown_tool_is_named() -> None:
    """A missing tool is an AttributeError with its name."""
    assert await run(
        "try:\n    tools.nothing({})\nexcept AttributeError as e:\n    return 'nothing' in str(e)"
    )


@pytest.mark.parametrize(
    "header",
    [
        "import ces_public",
        "from ces_public import Part, StatusError as Wrong",
        "from ces_public import *",
        "import ces_requests as http, json",
        "import json, ces_public as ces",
    ],
)
async def test_vocabulary_can_be_imported(header: str) -> None:
    """Editors and type checkers need imports that Google's runtime does not need."""
    ended = await run_file(
        f"{header}\n\ndef main(part: ces_public.Part = None) -> ces_public.Content:\n"
        "    return Part.from_text('a').text\n"
    )
    assert ended.result == "a"


async def test_import_accepts_an_alias() -> None:
    """`as` works."""
    ended = await run_file(
        "from ces_public import Part as P\nimport ces_requests as http\n\n"
        "def main():\n    return [P is Part, http is ces_requests]\n"
    )
    assert ended.result == [True, True]


def test_session_events_look_as_in_googles_runtime() -> None:
    """Times have whole seconds, and ids of long-running calls have any order."""
    event = AdkEvent(author="shop", timestamp=12.75, long_running_tool_ids={"b", "a"})
    session = SimpleNamespace(id="s1", events=[event])
    context: Any = SimpleNamespace(
        user_content=None, invocation_id="i1", agent_name="shop", session=session
    )
    [told] = context_of(context, {})["events"]
    assert told["timestamp"] == 12
    assert isinstance(told["timestamp"], int)
    assert told["long_running_tool_ids"] == ["a", "b"]
