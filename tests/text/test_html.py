"""HTML of work items and chat as Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.text.html import html_to_markdown

EMOJI = "http://schema.skype.com/Emoji"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<ul><li>a</li><li>b</li><ul><li>c</li><li>d</li></ul></ul>", "- a\n- b\n  - c\n  - d"),
        ("<ul><li>a<ul><li>b<ol><li>c</li></ol></li></ul></li></ul>", "- a\n  - b\n    1. c"),
        ("<ol start='3'><li>a</li><li>b</li></ol>", "3. a\n4. b"),
        (
            '<p>Use x &lt; 5 &amp;amp; &copy; <at id="0">Iris Okonjo</at> &lt;at&gt;all&lt;/at&gt;</p>',
            "Use x < 5 &amp; © @Iris Okonjo <at>all</at>",
        ),
        (
            f'<p>Done <img src="https://x/30.png" alt="👍" itemtype="{EMOJI}"> <emoji id="s" alt="😄"></emoji></p>',
            "Done 👍 😄",
        ),
        (
            "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>",
            "| A | B |\n| --- | --- |\n| 1 | 2 |",
        ),
        ("<table><tr><td>a|b</td><td>c<br>d</td></tr></table>", "| a\\|b | c d |\n| --- | --- |"),
        ("<table><tr><td><p>layout</p></td></tr></table>", "layout"),
        ('<codeblock class="Sql"><code>SELECT&nbsp;1<br>FROM x</code></codeblock>', "```sql\nSELECT 1\nFROM x\n```"),
        ("<pre>a\n```\nb</pre>", "````\na\n```\nb\n````"),
        ('<a href="https://x.y/a b">the page</a>', "[the page](https://x.y/a%20b)"),
        ('<a href="https://x.y">https://x.y</a>', "https://x.y"),
        ('<a href="javascript:alert(1)">press</a>', "press"),
        ("<systemEventMessage/>", ""),
        ('<attachment id="1"></attachment>see', "see"),
        ("<script>steal()</script><style>p{}</style><!-- note -->text", "text"),
        ("<div>one</div><div>two</div><p>three</p>", "one\ntwo\n\nthree"),
        ("<h2>Steps</h2><p>first <b>bold </b>word</p>", "## Steps\n\nfirst **bold** word"),
        ("<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc"),
        ("<span><p>a</p><p>b</p></span>", "a\n\nb"),
        ('<img src="https://graph/hostedContents/1/$value" alt="plan">', "[image: plan]"),
        ('<img src="data:image/png;base64,AAAA" alt="plan">', "[image: plan]"),
        ("plain text & more", "plain text & more"),
        ("a&nbsp;b", "a b"),
        ("", ""),
    ],
)
def test_html_becomes_markdown(html: str, markdown: str) -> None:
    assert html_to_markdown(html) == markdown


def test_a_known_attachment_is_named() -> None:
    assert (
        html_to_markdown('<attachment id="7"></attachment>', attachments={"7": "plan.docx"})
        == "[attachment: plan.docx]"
    )


def test_html_that_is_nested_without_end_keeps_its_words() -> None:
    assert html_to_markdown("<p>first</p>" + "<div>" * 5000 + "deep").split() == ["first", "deep"]


@given(st.text(alphabet="<>/ab\"'=& ;pulitdr", max_size=80))
def test_no_html_breaks_it(html: str) -> None:
    html_to_markdown(html)
