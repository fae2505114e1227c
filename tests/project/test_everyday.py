"""The cases of every day."""

from tests.conftest import NO_CASES


def test_the_cases_that_are_named_exist(request):
    assert request.config.stash[NO_CASES] == {}
