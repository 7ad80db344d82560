"""The gate reads messages exactly as servers read them."""

from __future__ import annotations

import json

import pytest

from signoff.channels.mcp.messages import BadMessage, call_of, id_in, read

CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":%s}}'

ANSWERED = CALL.replace("%s}", '%s,"inputResponses":%s}')


def test_a_message_stays_on_one_line_and_keeps_its_digits() -> None:
    """All kinds of line breaks are removed or escaped, and numbers keep their digits."""
    sent = CALL.replace(",", ",\r\n", 2) % '{"a": 1.10, "b": "x\u2028y\u0085z", "c": 1e2}'
    message = read(sent.encode())
    assert message.text.splitlines() == [message.text]
    assert json.loads(message.text) == json.loads(sent)
    assert "1.10" in message.text
    call = call_of(message)
    assert call is not None
    assert call.arguments == {"a": 1.1, "b": "x\u2028y\u0085z", "c": 100}
    own = call.request("own", {"requestState": '"s"'})
    assert own.splitlines() == [own]
    assert json.loads(own)["params"] == json.loads(sent)["params"] | {"requestState": "s"}
    assert json.loads(own)["id"] == "own"


@pytest.mark.parametrize(
    "sent",
    [
        "[]",
        "1",
        "\ufeff{}",
        '{"id":1,"id":2}',
        '{"a":NaN}',
        CALL % "[1]",
        CALL.replace('"pay"', "5") % "{}",
        CALL.replace('"id":1', '"id":true') % "{}",
        CALL.replace('"id":1', '"id":null') % "{}",
        CALL.replace('"pay"', '"p\\u0000y"') % "{}",
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"pay"}}',
        '{"jsonrpc":"2.0","id":1,"METHOD":"tools/call","params":{"name":"pay"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"param\u017f":{}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","Name":"pay"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","Arguments":{}}}',
        CALL % '{"amount":1,"Amount":1000}',
        CALL % '{"orders":[{"amount":1,"AMOUNT":1000}]}',
        ANSWERED % ('{"inputResponses":{}}', '{"to":"DE12"}'),
        ANSWERED % ('{"INPUTRESPONSES":{}}', '{"to":"DE12"}'),
        ANSWERED % ("{}", '{"to":"DE12","TO":"DE13"}'),
    ],
)
def test_messages_of_another_form_are_refused(sent: str) -> None:
    """Two parsers could read them differently, or miss a call that needs approval."""
    with pytest.raises(BadMessage):
        call_of(read(sent.encode()))


def test_arguments_may_have_keys_of_any_case() -> None:
    """Keys in different objects are not duplicates, and tools choose their own names."""
    call = call_of(read((CALL % '{"Name":{"name":"x"},"Method":[{"A":1},{"a":2}]}').encode()))
    assert call is not None
    assert call.arguments == {"Name": {"name": "x"}, "Method": [{"A": 1}, {"a": 2}]}


def test_the_gate_adds_its_elicitation_capability_to_a_request() -> None:
    """For a client that declares capabilities per request, the gate adds its own."""
    key = "io.modelcontextprotocol/clientCapabilities"
    sent = json.loads(CALL % "{}")
    sent["params"]["_meta"] = {key: {"roots": {}}, "progressToken": 7}
    call = call_of(read(json.dumps(sent).encode()))
    assert call is not None
    assert (call.token, call.answers_input) == (7, False)
    meta = json.loads(call.request("own", {}))["params"]["_meta"]
    assert meta == {key: {"roots": {}, "elicitation": {"form": {}}}, "progressToken": 7}


def test_the_id_of_an_answer_that_cannot_be_read_is_found() -> None:
    """Otherwise a client would wait for that answer forever."""
    assert id_in(b'{"id":"x","id":"x","result":{}}') == "x"
    assert id_in(b"nothing") is None
