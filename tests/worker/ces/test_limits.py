"""Limits of code: it cannot escape, exhaust the machine, or fail silently."""

from __future__ import annotations

import os

import pytest
from pydantic_monty import MontyCrashedError

from signoff.worker.ces.errors import CodeError, CodeFailed, CodeRefused
from signoff.worker.ces.lowering import lower
from signoff.worker.ces.rules import Rules
from worker.ces.studio import run, run_file

TIGHT = Rules(seconds=0.5, memory=16 << 20, depth=60, output=10_000, http_seconds=0.2)

BOMBS = {
    "time": "while True:\n    pass",
    "memory": "x = []\nwhile True:\n    x.append('a' * 100000)",
    "one piece": "return 'a' * 10**10",
    "power": "return 9**9**9",
    "recursion": "def f():\n    return f()\nreturn f()",
    "output": "while True:\n    print('x' * 1000)",
    "result": "return 'x' * 20000",
    "format": "return '{:>1000000000}'.format(1)",
    "sleep": "import time\ntime.sleep(3600)",
    "nesting": "import json\nreturn json.loads('[' * 100000)",
    "much sleep": "import time\nwhile True:\n    time.sleep(0.05)",
    "sleep that is no number": "import time\nwhile True:\n    time.sleep(float('nan'))\n    time.sleep(0.05)",
    "sleep that is no time": "import time\ntime.sleep('long')",
    "sorting": "return sorted(range(10**6), key=lambda x: [x] * 1000)",
    "a growing list": "x = [0]\nwhile True:\n    x += x",
    "a growing number": "x = 3\nwhile True:\n    x *= x",
    "a growing dictionary": "x = {}\nwhile True:\n    x[len(x)] = 'a' * 1000",
    "a string of a number": "return len(str(9 ** 10**6))",
    "a wide format": "return len(f'{1:>{10**9}}')",
    "bytes": "return b'a' * 10**10",
    "a range": "return list(range(10**10))",
    "a product": "import itertools\nreturn list(itertools.product(range(1000), repeat=5))",
    "a regular expression": "import re\nreturn re.match(r'(a+)+$', 'a' * 60 + 'b') or 1 / 0",
    "nested data": "x = []\nfor _ in range(10**6):\n    x = [x]\nreturn str(x)",
    "nested code": "return eval('(' * 10000 + ')' * 10000)",
    "joining": "return ','.join(['a' * 1000] * 10**6)",
    "calls": "while True:\n    tools.lookup({})",
}

ESCAPES = {
    "class walk": "return ().__class__.__bases__[0].__subclasses__()",
    "mro": "return type(1).mro()",
    "format string": "return '{0.__class__.__mro__}'.format(1)",
    "format map": "return '{a.__init__.__globals__}'.format_map({'a': context})",
    "f-string": "return f'{().__class__.__base__!r}'",
    "format spec": "return '{0.__class__:{0.__class__}}'.format(1)",
    "built name": "return getattr((), '__cl' + 'ass__').__base__",
    "subclasses of a type": "return type.__subclasses__(object)",
    "made class": "return type('A', (object,), {})",
    "globals of a method": "return context.get_variable.__func__.__globals__",
    "closure": "return tools.lookup.__closure__",
    "context of an exception": "try:\n    1/0\nexcept Exception as e:\n    return e.__context__.__traceback__",
    "frame of a generator": "return (x for x in [1]).gi_frame",
    "module attribute": "import json\nreturn json.codecs.open",
    "loader": "import json\nreturn json.__loader__.get_data('/etc/passwd')",
    "builtins of a module": "import math\nreturn math.__builtins__",
    "pickle": "exec('import pickle')",
    "ctypes": "exec('import ctypes')",
    "compile": "return compile('1', 'x', 'eval')",
    "environment": "return eval('os').environ",
    "unbound own name": "return eval('_signoff_' + 'classes')['Part'].__init__.__globals__",
    "globals of a function": "return get_variable.__globals__",
    "code of a function": "return get_variable.__code__",
    "frames": "try:\n    1/0\nexcept Exception as e:\n    return e.__traceback__.tb_frame",
    "builtins": "return __builtins__",
    "import function": "return __import__('os')",
    "getattr": "return getattr(getattr(context, '__class__'), '__mro__')",
    "file": "return open('/etc/passwd').read()",
    "write": "open('/tmp/x', 'w').write('x')",
    "exec of an import": "exec('import os\\nx = os.environ')\nreturn x",
    "eval of a file": "return eval(\"open('/etc/passwd').read()\")",
    "process": "exec('import subprocess')",
    "socket": "exec('import socket')",
    "modules": "exec('import sys\\nx = sys.modules')\nreturn x",
    "path": "exec('import pathlib\\nx = pathlib.Path(\"/etc/passwd\").read_text()')\nreturn x",
    "own name": "return eval('signoff_host')('unknown', 1, 2)",
}

ODD_ENDS = {
    "a number beyond Python's limit": "return {'x': 10**5000}",
    "a function": "return {'x': len}",
    "an object": "class A:\n    pass\nreturn A()",
    "an error": "return ValueError('x')",
    "a class": "return {'x': int}",
    "an ellipsis": "return ...",
    "a key": "return {...: 1}",
    "a variable that is a function": "context.state['x'] = len",
    "a variable that is an object": "class A:\n    pass\ncontext.state['x'] = A()",
    "a variable of bytes that are no text": "context.state['x'] = b'\\xff'",
    "a variable beyond Python's limit": "context.state['x'] = 10**5000",
    "no variables": "context.state = 5",
}


@pytest.mark.parametrize("code", BOMBS.values(), ids=BOMBS)
async def test_code_beyond_a_limit_is_one_failed_call(code: str) -> None:
    """Time, memory, recursion, output and calls have limits; the next call works as usual."""
    with pytest.raises(CodeFailed):
        await run(code, rules=TIGHT)
    assert await run("return 1") == 1


@pytest.mark.parametrize("code", ODD_ENDS.values(), ids=ODD_ENDS)
async def test_an_end_that_no_session_can_store_is_one_failed_call(code: str) -> None:
    """The result and the variables are stored in a session, which would fail the whole run."""
    with pytest.raises(CodeFailed, match="have to be plain data"):
        await run(code)


async def test_a_result_is_in_the_form_in_which_sessions_store_it() -> None:
    """Keys become text, sets lists, and times text, as JSON has them."""
    body = (
        "import datetime\nimport decimal\n"
        "return {1: {2, }, 'at': datetime.datetime(2026, 1, 2), 'sum': decimal.Decimal('1.50'), "
        "'raw': b'\\xff', 'pair': {(1, 2): None}}"
    )
    assert await run(body) == {
        "1": [2],
        "at": "2026-01-02T00:00:00",
        "sum": "1.50",
        "raw": "_w==",
        "pair": {"1,2": None},
    }


async def test_code_that_replaces_the_end_is_one_failed_call() -> None:
    """A function of the code with the name of one of ours breaks only its own call."""
    with pytest.raises(CodeFailed, match="have to be plain data"):
        await run_file("def _signoff_end(result, objects):\n    return 1\ndef main():\n    pass\n")


@pytest.mark.parametrize("code", ESCAPES.values(), ids=ESCAPES)
async def test_code_cannot_leave_the_sandbox(code: str) -> None:
    """No attribute, frame, import, format string or file leads outside the sandbox."""
    with pytest.raises(CodeError):
        await run(code, rules=TIGHT)


@pytest.mark.parametrize(
    "module", ["os", "sys", "subprocess", "socket", "pathlib", "requests", "ctypes", ".x"]
)
def test_only_pure_modules_can_be_imported(module: str) -> None:
    """Another import is refused before the code runs, with its line."""
    statement = "from . import x" if module == ".x" else f"import {module}"
    with pytest.raises(CodeRefused, match=r"tool\.py, line 2: .* cannot be imported"):
        lower(f"\n{statement}\n", "tool.py")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def main(:\n    pass", "line 1: this is not Python"),
        ("x = 1\ndef main():\n    yield 1", "line 3: the sandbox does not have generators"),
        ("class A(Exception):\n    pass", "line 1: the sandbox does not have classes that inherit"),
        (
            "class A:\n    @property\n    def x(self): pass",
            "line 3: the sandbox does not have property",
        ),
        ("x = 1\ndel x", "line 2: the sandbox can delete entries"),
        ("x = any(tools.f({}) for _ in y)", "line 1: write this any\\(\\) as a loop"),
        ("x = signoff_host", "line 1: the name signoff_host is Signoff's own"),
        ("def f(e):\n    return _signoff_plain(e)", "line 2: the name _signoff_plain"),
    ],
)
def test_unsupported_code_is_refused_with_its_line(code: str, words: str) -> None:
    """Unsupported code is refused when it is read; the error names the line."""
    with pytest.raises(CodeRefused, match=words):
        lower(code, "tool.py")


async def test_uncaught_exception_is_reported_with_its_line() -> None:
    """An uncaught exception has the file, the line and its message."""
    source = "def main():\n    x = {}\n    return helper(x)\n\ndef helper(x):\n    return x['id']\n"
    with pytest.raises(CodeFailed, match=r"main\.py, line 6: KeyError: id"):
        await run_file(source)


async def test_a_status_error_keeps_its_name() -> None:
    """An uncaught StatusError keeps its name."""
    with pytest.raises(CodeFailed, match=r"line 2: StatusError: 404 Gone"):
        await run_file("def main():\n    ExternalResponse('', 404, 'Gone').raise_for_status()")


async def test_deeply_nested_json_is_one_failed_call() -> None:
    """Endlessly nested JSON does not end the sandbox."""
    answer = {"response": {"text": "[" * 200_000, "status_code": 200, "reason": "OK"}}
    with pytest.raises(CodeFailed):
        await run_file("def main():\n    return tools.lookup({}).json()", answers={"tool": answer})
    assert await run("return 1") == 1


async def test_entries_are_deleted() -> None:
    """`del x[key]` and `del x[a:b]` do what they do in Python."""
    body = "d = {'a': 1, 'b': 2}\nl = [1, 2, 3, 4]\ndel d['a'], l[0]\ndel l[1:]\nreturn [d, l]"
    assert await run(body) == [{"b": 2}, [2]]


async def test_a_file_may_have_helpers_constants_and_imports() -> None:
    """All of the file is available when the function runs."""
    source = (
        "import json\nfrom typing import Any\nRATE = 2\n\n"
        "def double(x: int) -> int:\n    return x * RATE\n\n"
        "def main() -> dict[str, Any]:\n    return json.loads(json.dumps({'x': double(4)}))\n"
    )
    assert (await run_file(source)).result == {"x": 8}


async def test_code_passes_only_plain_data_to_tools() -> None:
    """Only plain data can be passed to a tool."""
    with pytest.raises(CodeFailed, match="only plain data"):
        await run("tools.lookup({'x': {1, 2}})")


async def test_sandbox_crash_is_one_failed_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the sandbox process is killed, the call fails, and the next one runs."""
    import psutil

    async def host(
        kind: str, args: dict[str, object], state: dict[str, object]
    ) -> dict[str, object]:
        for child in psutil.Process(os.getpid()).children():
            if "monty" in child.name():
                child.kill()
        return {}

    from signoff.worker.ces import sandbox

    async def settle() -> dict[str, object]:
        return {}

    code = lower("def main():\n    return tools.lookup({})", "main.py")
    setup = {
        "context": {"signoff": "ToolContext"},
        "tools": ["lookup"],
        "marked": False,
        "objects": [],
    }
    with pytest.raises(CodeFailed, match="crashed") as caught:
        await sandbox.Sandbox(Rules()).run(
            code, "main", setup=setup, args={}, host=host, settle=settle
        )
    assert isinstance(caught.value.__cause__, MontyCrashedError)
    assert await run("return 1") == 1
