"""Writes the results of cases as text, JSON and JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from signoff.cli.policy_cases.results import CaseResult
from signoff.cli.printing import Output, Text

Results = Mapping[Path, Sequence[CaseResult]]
"""The results of the cases of each file."""


def print_results(results: Results) -> None:
    """Print each case with its failures, and how many passed."""
    out = Output()
    for file, found in results.items():
        out.print(Text(str(file), style="bold"))
        for one in found:
            sign, style = ("✗", "red") if one.failures else ("✓", "green")
            out.print(Text().append(f"  {sign} ", style).append(one.case.name))
            for failure in one.failures:
                out.print(Text(f"      {failure}"))
            if one.failures:
                out.print(Text(f"      line {one.line}", style="dim"))
    every = [one for found in results.values() for one in found]
    failed = sum(bool(one.failures) for one in every)
    cases = f"{len(every)} case{'s' * (len(every) != 1)}"
    out.print(Text(f"{cases}: {len(every) - failed} passed, {failed} failed."))


def results_json(results: Results) -> list[dict[str, Any]]:
    """Return the result of each case, as JSON."""
    return [
        {
            "file": str(file),
            "line": one.line,
            "name": one.case.name,
            "passed": not one.failures,
            "failures": list(one.failures),
        }
        for file, found in results.items()
        for one in found
    ]


def as_junit(results: Results) -> str:
    """Return the results as JUnit XML, for CI systems."""
    root = ET.Element("testsuites", name="signoff policy test")
    for file, found in results.items():
        failed = sum(bool(one.failures) for one in found)
        counts = {"tests": str(len(found)), "failures": str(failed), "errors": "0"}
        suite = ET.SubElement(root, "testsuite", {"name": str(file), **counts})
        for one in found:
            names = {"classname": file.stem, "name": one.case.name}
            case = ET.SubElement(suite, "testcase", {**names, "file": str(file), "time": "0"})
            case.set("line", str(one.line))
            if one.failures:
                problem = ET.SubElement(case, "failure", message=_clean(one.failures[0]))
                problem.text = _clean("\n".join(one.failures))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _clean(text: str) -> str:
    """Return text without characters that XML does not allow."""
    return "".join(one if one.isprintable() or one == "\n" else "�" for one in text)
