"""The policy of pages: a browser runs the script that Tailback wrote, and nothing that got in with data."""

from __future__ import annotations

import base64
import hashlib
from html.parser import HTMLParser

import pytest
import tailback
from tailback.comparison import compare
from tailback.executors import Threads
from tailback.report.frame import environment
from tailback.study.grid import sweep
from test_sweep import ASKED

PARTS = {"frame.html.j2", "key.html.j2", "panels.html.j2"}
HOSTILE = "<script>alert(1)</script><base href=//x><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """The policy of a page, what is in its scripts and styles, and its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.policies: list[str] = []
        self.inner: list[tuple[str, str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(given["content"] or "")
        runs = tag == "script" and given.get("type") not in ("text/plain", "application/json")
        self._open = tag if runs or tag == "style" else ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inner.append((self._open, data))

    @property
    def policy(self) -> dict[str, str]:
        (policy,) = self.policies
        return dict(part.strip().split(" ", 1) for part in policy.split(";"))


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    run = tailback.run("first-flow", sets=["run.duration=200us"], out=folder / "r")
    return {
        "report": (folder / "r" / "report.html").read_text(),
        "compare": compare(run, run).page(),
        "sweep": sweep({**ASKED, "about": HOSTILE}, executor=Threads(1)).page(),
    }


@pytest.mark.parametrize("name", ["report", "compare", "sweep"])
def test_only_the_own_script_and_style_are_allowed(name: str, pages: dict[str, str]) -> None:
    page = Page(pages[name])
    policy = page.policy
    assert policy["default-src"] == "'none'"
    assert policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in policy["script-src"]
    kinds = {"script": "script-src", "style": "style-src-elem"}
    assert {kind for kind, _ in page.inner} == set(kinds)
    for kind, text in page.inner:
        assert hash_of(text) in policy[kinds[kind]].split()
    for tag, attributes in page.tags:
        assert not [one for one in attributes if one.startswith("on")], (tag, attributes)
        assert "src" not in attributes, (tag, attributes)
        assert not (attributes.get("href") or "").startswith(("javascript:", "data:")), attributes
        assert tag not in ("base", "form", "iframe", "object", "embed"), tag


def test_every_page_has_the_policy() -> None:
    """They all are of one frame; none has a script or a style of its own."""
    env = environment()
    names = [name for name in env.list_templates() if name.endswith(".html.j2")]
    assert len(names) > 8
    for name in names:
        assert env.loader is not None
        source = env.loader.get_source(env, name)[0]
        if name not in PARTS:
            assert source.startswith('{% extends "frame.html.j2" %}'), name
        if name != "frame.html.j2":
            assert "<script" not in source, name
            assert "<style" not in source, name
