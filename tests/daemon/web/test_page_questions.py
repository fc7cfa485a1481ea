"""The head of a table's page answers the questions of docs/inside/page-questions.md, seen by a real browser."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from lakeward.daemon.status import TablePage
from lakeward.daemon.web.http import HttpServer
from lakeward.daemon.web.pages import GroupQuery, Pages
from tests.browser import visit
from tests.daemon.synthetic_status import busy_detail, detail, table

pytestmark = pytest.mark.browser

QUESTIONS = Path(__file__).parents[3] / "docs" / "inside" / "page-questions.md"
WIDTH, HEIGHT = 1280, 800

_PROBE = """
<pre id="probe"></pre>
<script>
addEventListener("load", () => {
  const seen = {};
  for (const element of document.querySelectorAll(".answer")) {
    const box = element.getBoundingClientRect();
    const at = document.elementFromPoint(box.left + box.width / 2, Math.min(box.bottom, innerHeight) - 3);
    const answer = element.cloneNode(true);
    answer.querySelectorAll("h2, form").forEach(each => each.remove());
    seen[element.id] = {
      bottom: box.bottom, right: box.right, covered: box.bottom < innerHeight && !element.contains(at),
      cut: element.scrollWidth > element.clientWidth + 1, text: answer.textContent.replace(/\\s+/g, " ").trim(),
    };
  }
  document.getElementById("probe").textContent = JSON.stringify({width: innerWidth, seen});
});
</script>
"""


def questions() -> list[tuple[str, str]]:
    """Each question with the id of its element."""
    return re.findall(r"^\| ([^|]*\?) \| `(\w+)` \|", QUESTIONS.read_text(), re.MULTILINE)


class Probed:
    """Serves the page of a table with a script that says where its elements are, which the real page may not have."""

    def __init__(self) -> None:
        self._pages = Pages()
        self.page: TablePage = detail()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith("/style"):
            kind, body = b"text/css", self._pages.stylesheet
        else:
            text = self._pages.one_table(self.page, GroupQuery(refresh=False))
            kind, body = b"text/html; charset=utf-8", text.replace("</body>", f"{_PROBE}</body>").encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def probed() -> Iterator[tuple[Probed, str]]:
    app = Probed()
    server = HttpServer(app, "127.0.0.1:0")
    server.start()
    yield app, server.address
    server.stop()


@pytest.mark.parametrize("page", [busy_detail(), detail(table("t", backlog=None, last_job=None), groups=(), ended=())])
def test_ten_questions_are_answered_without_scrolling(probed: tuple[Probed, str], page: TablePage):
    """Each of the list's elements is in sight at 1280 by 800, nothing covers it, and it says something: of a table
    that is at work, and of one of which little is known."""
    app, address = probed
    app.page = page
    asked = questions()
    assert len(asked) == 10 and len({element for _, element in asked}) == 10

    found = re.search(r'<pre id="probe">(.*?)</pre>', visit(address, width=WIDTH, height=HEIGHT).dom, re.DOTALL)

    assert found is not None
    said = json.loads(html.unescape(found[1]))
    assert said["width"] == WIDTH
    assert said["seen"].keys() == {element for _, element in asked}, "the list and the page's head are the same"
    for question, element in asked:
        place = said["seen"][element]
        assert place["bottom"] <= HEIGHT and place["right"] <= WIDTH, f"{question} is out of sight: {place}"
        assert not place["covered"] and not place["cut"], f"{question} is covered or cut: {place}"
        assert len(place["text"]) > 5, f"{question} is not answered"
