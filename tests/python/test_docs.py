"""The documents: lines are wrapped, cells are short, links resolve, and the tests that are named exist."""

import contextlib
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("storage/*.md"), *ROOT.glob("daemon/**/*.md")])
COLUMNS = 100
CELL_CHARACTERS_MAX = 220

CODE = re.compile(r"`[^`]*`")
# Beginnings of comments whose subject stands in the line above.
DANGLING = re.compile(r"^\s*(//|#|/\*) ?(Of|Whoever|Nor|Likewise|Or|And|But|So that)\b")
THOSE = re.compile(r"^\s*(//|#|/\*) ?Those\b")  # client/graph has some left
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(document: pathlib.Path) -> list[tuple[int, str]]:
    """Numbered lines outside code fences."""
    lines, fenced = [], False
    for number, line in enumerate(document.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            lines.append((number, line))
    return lines


@functools.lru_cache(maxsize=None)
def anchors(document: pathlib.Path) -> frozenset[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = [line.lstrip("#") for _, line in prose(document) if line.startswith("#")]
    return frozenset(re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings)


def ids(document: pathlib.Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_lines_are_wrapped(document):
    long = [f"{number}: {line}" for number, line in prose(document)
            if len(line) > COLUMNS and not line.startswith("|") and not LINK.search(line)]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_cells_are_short(document):
    long = [f"{number}: {cell}" for number, line in prose(document) if line.startswith("|")
            for cell in line.split("|") if len(cell) > CELL_CHARACTERS_MAX]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_links_resolve(document):
    broken = []
    for number, line in prose(document):
        for target in LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (document.parent / path).resolve() if path else document
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{number}: {target}")
    assert not broken, "\n".join(broken)


DECISIONS = sorted((ROOT / "docs" / "adr").glob("0*.md"))
DECISION_LINES_MAX = 60


def test_the_index_of_decisions_is_complete():
    rows = re.findall(r"^\| \[(\d+)\]\(([^)]+)\) \| (.+) \|$", (ROOT / "docs" / "adr" / "README.md").read_text(), re.MULTILINE)
    headings = [(path, path.read_text().partition("\n")[0]) for path in DECISIONS]
    assert rows == [(str(int(path.name[:4])), path.name, heading.partition(". ")[2]) for path, heading in headings]
    assert all(heading.startswith(f"# {int(path.name[:4])}. ") for path, heading in headings)


@pytest.mark.parametrize("decision", DECISIONS, ids=ids)
def test_decisions_are_short(decision):
    assert len(decision.read_text().splitlines()) <= DECISION_LINES_MAX


def test_guarantees_name_tests_that_exist():
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*.cc")]
    defined = set(re.findall(r"\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\)", "\n".join(sources)))
    python = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    text = (ROOT / "docs" / "guarantees.md").read_text()
    missing = [f"{suite}.{name}" for suite, name in re.findall(r"`([A-Z]\w+)\.(\*|\w+)`", text)
               if not any(suite == s and name in ("*", n) for s, n in defined)]
    missing += [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in python]
    missing += [path for path in re.findall(r"`(tests/[\w/.]+)`", text) if not (ROOT / path).exists()]
    assert not missing, ", ".join(missing)


def test_comments_begin_with_their_subject():
    sources = [path for folder in ("client", "daemon", "deploy", "protos", "storage", "tests") for path in (ROOT / folder).rglob("*")
               if path.is_file() and "__pycache__" not in path.parts and (folder == "deploy" or path.suffix in (".cc", ".h", ".py", ".proto"))]
    dangling = [f"{path.relative_to(ROOT)}:{number}: {line.strip()}" for path in sources
                for number, line in enumerate(path.read_text().splitlines(), 1)
                if DANGLING.search(line) or (THOSE.search(line) and "client/graph/" not in str(path))]
    assert not dangling, "\n".join(dangling)


def limits():
    values = {"size_t": int}
    for name, value in re.findall(r"inline constexpr size_t (k\w+) = ([^;]+);", (ROOT / "storage/base/limits.h").read_text()):
        with contextlib.suppress(NameError, SyntaxError):  # those that others than these decide
            values[name] = int(eval(value.replace("'", "").replace("{", "(").replace("}", ")"), {}, values))
    return values


def test_the_light_protocol_names_the_limits():
    values = limits()
    told = (ROOT / "protos/kiln/v1/light.proto").read_text()
    for words in (f"{values['kStreamInFlightMax']} requests are in flight", f"answers of {values['kStreamUnsentBytesMax'] >> 10} KiB unread",
                  f"a body of more than {values['kRequestBytesMax'] >> 20} MiB",
                  f"hold more than is left of {values['kLightRequestBytesMax'] >> 20} MiB", f"is left of {values['kUnreadBytesMax'] >> 20} MiB"):
        assert words in told, words
    assert f"reads up to {values['kStreamInFlightMax']} requests" in (ROOT / "client/python/kiln/_connection.py").read_text()


def test_the_ceiling_of_memory_is_the_sum_of_limits():
    values = limits()
    names = ("kUnreadBytesMax", "kLightRequestBytesMax", "kRequestBufferBytesMax", "kQueueBytesMax")
    parts = [*(values[name] for name in names), values["kConnectionsMax"] * values["kConnectionBufferBytesMax"]]
    text = (ROOT / "docs/reference.md").read_text().partition("**Memory.**")[2]
    told = [int(number) for number in re.findall(r"\| (\d+) \|\n", text.partition("Each attack")[0])]
    assert sorted(told)[2:] == sorted(part >> 20 for part in parts), (told, parts)
    assert f"{sum(told) / 1024:.1f} GiB" in text and f"{values['kOperatorBufferBytesMax'] >> 20} MiB more" in text, sum(told)
