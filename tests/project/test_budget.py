"""The ledger says what each folder of the library costs, and how many names users meet."""

import tomllib

from verification import size

SLACK = 20
"""Number of lines by which a folder may be smaller than stated."""


def test_nothing_grows_without_a_word():
    stated, now = tomllib.loads(size.LEDGER.read_text(encoding="utf-8")), tomllib.loads(size.ledger())
    assert {part: list(numbers) for part, numbers in stated.items()} == {part: list(now[part]) for part in now}
    slack = {"lines": SLACK, "public": 0}
    other = {
        name: f"{number}, stated {stated[part][name]}"
        for part, numbers in now.items()
        for name, number in numbers.items()
        if not 0 <= stated[part][name] - number <= slack[part]
    }
    assert other == {}, "write the new numbers with `python verification/size.py --ledger`, and look at them"


def test_code_is_counted_without_prose(tmp_path):
    path = tmp_path / "some.py"
    text = '"""Text.\n\nMore.\n"""\n\n# comment\nA = 1  # value\n"""About A."""\n\n\n'
    path.write_text(text + 'def f(\n    x,\n):\n    """Do."""\n    return """a\n\nb"""\n')
    assert size.n_lines_of_code(path) == 6
    assert size.n_lines([path]) == len(path.read_text().splitlines())
