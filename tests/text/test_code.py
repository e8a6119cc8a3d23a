"""Program text is cut by symbol, in every language with a grammar and without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.text.code import Segment, common_path, finer, segments
from core.text.symbols import symbols_of

HERE = Path(__file__).resolve()

PYTHON = '''"""Module."""
import os

X = 1  # not about A
# why there is an A
@decorated(
    1,
)
class A:
    """Doc."""

    # about f
    @property
    def f(self):
        def inner():
            return 1

        return """
# no comment
def no_function():
"""

    async def g(self): pass


print(A)
'''
TYPESCRIPT = """import { x } from "y";

/** The tariff. */
@Injectable()
export class Tariff<T> {
  // computes
  @Cached()
  calc(q: number): number {
    return q;
  }

  readonly arrow = (x: number) => {
    return x;
  };
}

export const rate = async (a: number) => {
  return a;
};

export interface Row {
  a: string;
}
const App = () => <div className={rate}>hello</div>;
"""
CSHARP = """using System;

namespace Kai.Berths;

/// <summary>Sends.</summary>
[Serializable]
public partial class Sender : ISender
{
    /// <summary>The partner.</summary>
    public int Partner { get; set; }

    [Obsolete("x")]
    public async Task Send(int a)
    {
#if DEBUG
        Console.WriteLine(a);
#endif
    }
}
public record Row(int A);
"""
JAVA = """package a;
/** Doc. */
@Service
public class A {
    // about f
    @Override
    public void f() {
    }
    enum K { X }
}
"""
GO = """package main

// Tariff is a price.
type Tariff struct {
	A int
}

// Calc computes.
func (t *Tariff) Calc(x int) int {
	return x
}

func (l *List[T]) Push(x T) {}
"""
RUST = """use x;
/// Doc
#[derive(Debug)]
pub struct A { a: u8 }

impl A {
    /// About f
    #[inline]
    pub fn f(&self) -> i32 { 1 }
}
"""
C = """#include <a.h>
/* About f. */
static int *f(int a)
{
    return 0;
}
"""
CPP = """namespace n {
// About A.
template <typename T>
class A : public B {
 public:
  void f() {}
};
void A::g() {
}
}
"""
BASH = """#!/bin/bash
# About deploy.
deploy() {
  echo 1
}
deploy
"""
SAMPLES = {
    "python": PYTHON,
    "typescript": TYPESCRIPT,
    "csharp": CSHARP,
    "java": JAVA,
    "go": GO,
    "rust": RUST,
    "c": C,
    "cpp": CPP,
    "bash": BASH,
}


def every(found: tuple[Segment, ...]) -> Iterator[Segment]:
    for segment in found:
        yield segment
        yield from every(segment.parts)


def named(language: str) -> dict[str, str]:
    """Symbol path to the first line of its segment."""
    return {".".join(s.path): s.lines[0].strip() for s in reversed([*every(segments(SAMPLES[language], language))])}


@pytest.mark.parametrize(
    ("language", "symbols"),
    [
        (
            "python",
            {
                "A": "# why there is an A",
                "A.f": "# about f",
                "A.f.inner": "def inner():",
                "A.g": "async def g(self): pass",
            },
        ),
        (
            "typescript",
            {
                "Tariff": "/** The tariff. */",
                "Tariff.calc": "// computes",
                "Tariff.arrow": "readonly arrow = (x: number) => {",
                "rate": "export const rate = async (a: number) => {",
                "Row": "export interface Row {",
                "App": "const App = () => <div className={rate}>hello</div>;",
            },
        ),
        (
            "csharp",
            {
                "Sender": "/// <summary>Sends.</summary>",
                "Sender.Partner": "/// <summary>The partner.</summary>",
                "Sender.Send": '[Obsolete("x")]',
                "Row": "public record Row(int A);",
            },
        ),
        ("java", {"A": "/** Doc. */", "A.f": "// about f", "A.K": "enum K { X }"}),
        (
            "go",
            {
                "Tariff": "// Tariff is a price.",
                "Tariff.Calc": "// Calc computes.",
                "List.Push": "func (l *List[T]) Push(x T) {}",
            },
        ),
        ("rust", {"A": "/// Doc", "A.f": "/// About f"}),
        ("c", {"f": "/* About f. */"}),
        ("cpp", {"A": "// About A.", "A.f": "void f() {}", "A::g": "void A::g() {"}),
        ("bash", {"deploy": "# About deploy."}),
    ],
)
def test_symbols_are_found_with_the_comments_and_decorators_before_them(language: str, symbols: dict[str, str]) -> None:
    found = named(language)
    assert {k: v for k, v in found.items() if k} == symbols


def test_text_in_a_string_is_no_symbol_and_what_follows_a_symbol_is_not_part_of_it() -> None:
    found = segments(PYTHON, "python")
    assert not any("no_function" in s.path for s in every(found))
    assert [s.path for s in found] == [(), ("A",), ()]
    assert found[-1].lines[0] == "print(A)"


@pytest.mark.parametrize("language", [*SAMPLES, "sql", None])
def test_parts_hold_exactly_the_lines_of_the_whole(language: str | None) -> None:
    check(SAMPLES.get(language or "", PYTHON), language)


def check(text: str, language: str | None) -> None:
    """Segments make up the text, at every level and however fine, and number their lines rightly."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found = segments(text, language)
    assert [line for s in found for line in s.lines] == lines
    for segment in every(found):
        assert list(segment.lines) == lines[segment.first - 1 : segment.last]
        if len(segment.lines) > 1:
            assert tuple(line for s in finer(segment) for line in s.lines) == segment.lines
            assert all(len(s.lines) < len(segment.lines) for s in finer(segment))


LINES = sorted({line for sample in SAMPLES.values() for line in sample.split("\n")})


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([*LINES, "}", "{", "", "  ", '"""', "\r", "é\x00😀"]), max_size=30),
    st.sampled_from([*SAMPLES]),
)
def test_no_line_is_lost_or_doubled_in_code_that_is_broken_anyhow(lines: list[str], language: str) -> None:
    text = "\n".join(lines)
    check(text, language)
    assert segments(text, language) == segments(text, language)


def test_a_slip_leaves_the_symbols_round_it() -> None:
    found = segments("def good():\n    return 1\n\n\ndef bad(:\n    x = = 2\n\n\ndef last():\n    return 3\n", "python")
    assert {("good",), ("last",)} <= {s.path for s in found}


def test_text_that_the_grammar_can_not_read_is_cut_at_the_margin() -> None:
    prose = "class Kai of the berth is described here; see !! below\n\n" * 5 + "def f(x) ->\n  ???\n"
    assert symbols_of(prose, "python") is None
    assert ("f",) in {s.path for s in segments(prose, "python")}


def test_another_dialect_is_tried_where_the_first_does_not_fit() -> None:
    assert segments("const a = <T>(x as any);\nfunction f() {\n}\n", "typescript")[-1].path == ("f",)
    header = "class Berth : public Place {\n  void moor();\n};\n"
    assert segments(header, "c")[0].path == ("Berth",)


@pytest.mark.parametrize("text", ["(" * 300_000, "[\n" * 20_000 + "]\n" * 20_000, "x = [\n" + "1,\n" * 60_000 + "]\n"])
@pytest.mark.parametrize("language", ["python", "csharp"])
def test_deep_and_wide_files_do_not_break_it_and_lose_no_line(text: str, language: str) -> None:
    assert "\n".join(s.text for s in segments(text, language)) == text


def test_the_paths_of_neighbours_share_what_they_lie_in() -> None:
    assert common_path([("A", "f"), (), ("A", "g")]) == ("A",)
    assert common_path([("A",), ("B",)]) == ()
    assert common_path([(), ("A", "f")]) == ("A", "f")
    assert common_path([]) == ()


def test_a_long_shell_script_is_cut_by_its_lines() -> None:
    """Its scanner can look ahead to the end of the text from each place in it."""
    script = "".join(f"f{n}() {{\n  echo {n}\n}}\n" for n in range(100))
    found = symbols_of(script, "bash")
    assert found is not None
    assert len(found) == 100
    long = script * 20
    assert symbols_of(long, "bash") is None
    assert "\n".join(s.text for s in segments(long, "bash")) == long
