"""The pages of services are what the code says, in one form."""

from __future__ import annotations

import re

import pytest

from deploy.service_pages import BEGIN, END, FOLDER, HEADINGS, PAGES, ServicePage, document, metrics_of, settings_of
from lakeward.config.reference import sections
from lakeward.protocol.refusals.eligibility import TableService


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    """Remade by `make service-pages`."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert text == document(name, text)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_six_headings(name: str) -> None:
    """An operator finds the same thing at the same place on each page."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == HEADINGS
    assert text.count(BEGIN) == text.count(END) == 3


def test_each_service_that_may_be_refused_has_a_page() -> None:
    """Reading rows has pages of its own; unscheduling a plan is on the page of compaction, and what may not be written
    to is on that of clustering."""
    pages = {page.refused_as for page in PAGES.values()}
    assert set(TableService) - pages == {TableService.READING, TableService.UNSCHEDULING}


def test_sections_of_services_are_on_a_page() -> None:
    """A service's section of the configuration is on its page with each key."""
    described = "\n".join(settings_of(page) for page in PAGES.values())
    for section in sections():
        if section.name.startswith("defaults."):
            assert all(f"`{section.name}.{key.name}`" in described for key in section.keys), section.name


def test_a_setting_that_is_not_there_is_an_error() -> None:
    """A key that was renamed is renamed in the list of pages, too."""
    with pytest.raises(AssertionError, match=r"no setting is called defaults\.gone"):
        settings_of(ServicePage(TableService.CLEANING, "services/clean", ("defaults.gone",)))


def test_alerts_of_all_services_are_on_the_pages_of_those_that_they_name() -> None:
    """LakewardServiceFailing watches the jobs of some services; a page has it if its jobs are among them."""
    assert "LakewardServiceFailing" in metrics_of(PAGES["clean"])
    assert "LakewardServiceFailing" not in metrics_of(PAGES["compaction"])
    assert "LakewardRestorePending" in metrics_of(PAGES["restore"])
    assert "LakewardRestorePending" not in metrics_of(PAGES["rollback"])
