"""The demo corpus: the documentation that ships with the interpreter, cut into passages.

Three sources, read in this order:

* the standard library's source files, parsed with ``ast`` (nothing is imported or executed);
* the docstrings of a fixed list of compiled modules that do nothing on import (``builtins``,
  ``math``, ...), because they have no source to parse;
* ``pydoc_data.topics``, the language reference as ``help()`` shows it (a module of string data).

A summary line is the question, the rest of the docstring the passage: a passage never contains its
own question. A source that this interpreter does not ship is skipped. Everything is ordered by
name, so the corpus depends on the interpreter alone.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from retrieval_quality.demo.tokens import normalise, stemmed_tokens

MIN_BODY_WORDS = 12
MIN_QUESTION_WORDS = 4
MAX_QUESTION_WORDS = 40
MIN_SHARED_WORDS = 3
CHUNKER_VERSION = "docstring-110w-1"
CHUNK_WORDS = 110
"""A passage is closed at the first paragraph end after this many words."""

# Test suites, vendored wheels, an editor's internals, lib2to3 (removed in 3.13), and encodings,
# whose docstrings are generated from one template.
SKIPPED_FOLDERS = frozenset(
    {
        "__pycache__",
        "encodings",
        "ensurepip",
        "idlelib",
        "lib-dynload",
        "lib2to3",
        "site-packages",
        "test",
        "tests",
        "turtledemo",
    }
)

# Compiled modules without a Python twin, and without effects on import -> the name users import.
COMPILED_MODULES = (
    ("_collections", "collections"),
    ("_functools", "functools"),
    ("_random", "random"),
    ("_struct", "struct"),
    ("array", "array"),
    ("binascii", "binascii"),
    ("builtins", "builtins"),
    ("cmath", "cmath"),
    ("errno", "errno"),
    ("gc", "gc"),
    ("itertools", "itertools"),
    ("marshal", "marshal"),
    ("math", "math"),
    ("posix", "os"),
    ("select", "select"),
    ("sys", "sys"),
    ("time", "time"),
    ("unicodedata", "unicodedata"),
    ("zlib", "zlib"),
)

_SIGNATURE = re.compile(r"^[\w.]+\s*\(.*\)(\s*->.*)?(\s*:)?$")
_UNDERLINE = re.compile(r"^([*=\-~^\"#])\1{3,}$")
_SENTENCE = re.compile(r"(.+?[.:!?])(?:\s+(?=[A-Z\"'(`*])|$)", re.DOTALL)


@dataclass(frozen=True)
class Passage:
    """One retrievable chunk.

    ``chunk_id`` is ``<doc_id>#<number>``; ``title`` is the qualified name. ``question`` is the
    known-item question whose only relevant passage this is, or None for a passage nobody asks for.
    ``kind`` is one of module, class, function, method, language.
    """

    chunk_id: str
    doc_id: str
    title: str
    kind: str
    question: str | None
    text: str


@dataclass(frozen=True)
class Corpus:
    """Passages in a stable order, and what was left out while building them."""

    passages: tuple[Passage, ...]
    n_duplicate_texts: int
    n_ambiguous_questions: int

    @property
    def asked(self) -> tuple[Passage, ...]:
        """The passages that have a question."""
        return tuple(p for p in self.passages if p.question is not None)

    @property
    def n_docs(self) -> int:
        """Number of distinct documents."""
        return len({p.doc_id for p in self.passages})


@dataclass(frozen=True)
class Docstring:
    """A qualified name, its kind and its cleaned docstring."""

    name: str
    kind: str
    text: str


def build_corpus(modules: Sequence[str] | None = None) -> Corpus:
    """Build the passages of this interpreter.

    ``modules`` limits the corpus to these top-level modules (``"topics"`` stands for the language
    reference); None reads everything. Exact duplicates of a passage text are dropped (the first
    stays). A question that several passages share has no single answer, so none of them keeps it:
    the passages stay as distractors, and the corpus counts the questions withdrawn.

    Raises RuntimeError when the interpreter ships too little documentation to ask anything.
    """
    wanted = None if modules is None else frozenset(modules)
    passages: list[Passage] = []
    seen_names: set[str] = set()
    for doc in _all_docstrings(wanted):
        if doc.name in seen_names:
            continue
        seen_names.add(doc.name)
        passages.extend(docstring_passages(doc))
    if wanted is None or "topics" in wanted:
        for topic in _topics():
            passages.extend(topic_passages(topic))
    corpus = _without_duplicates(passages)
    if len(corpus.asked) < 20:
        raise RuntimeError(
            f"this interpreter ships too little documentation for the demo: {len(corpus.asked)} "
            "questions found (standard-library source files or pydoc_data are needed)"
        )
    return corpus


def docstring_passages(doc: Docstring) -> list[Passage]:
    """Split one docstring into passages; the first carries the question.

    Empty when the summary is shorter than ``MIN_QUESTION_WORDS`` or the body than
    ``MIN_BODY_WORDS`` words.
    """
    question, paragraphs = _summary_and_body(doc.text)
    if not _is_question(question) or _n_words(paragraphs) < MIN_BODY_WORDS:
        return []
    return [
        _passage(doc, doc.name, number, question if number == 0 else None, text)
        for number, text in enumerate(_chunks(paragraphs))
    ]


def topic_passages(topic: Docstring) -> list[Passage]:
    """Split one language-reference topic into groups of paragraphs.

    The first sentence of a group is its question and is cut from the group, where it is a sentence
    of a fitting length; otherwise the group is kept whole, without a question.
    """
    doc_id = f"topic:{topic.name}"
    passages = []
    for number, group in enumerate(_chunks(_paragraphs(_without_headings(topic.text)))):
        question, rest = _first_sentence(group)
        if _is_question(question) and len(rest.split()) >= MIN_BODY_WORDS:
            passages.append(_passage(topic, doc_id, number, question, rest))
        elif len(group.split()) >= MIN_BODY_WORDS:
            passages.append(_passage(topic, doc_id, number, None, group))
    return passages


def _passage(doc: Docstring, doc_id: str, number: int, question: str | None, text: str) -> Passage:
    """Build a passage; a question that is not answerable from it (``_is_fair``) is withdrawn."""
    if question is not None and not _is_fair(question, doc.name, text):
        question = None
    return Passage(f"{doc_id}#{number}", doc_id, doc.name, doc.kind, question, text)


def _without_duplicates(passages: Iterable[Passage]) -> Corpus:
    """Drop repeated texts, withdraw questions that are not unique."""
    seen: set[str] = set()
    kept: list[Passage] = []
    n_duplicates = 0
    for passage in passages:
        key = normalise(passage.text)
        if key in seen:
            n_duplicates += 1
            continue
        seen.add(key)
        kept.append(passage)
    asked_by = Counter(normalise(p.question) for p in kept if p.question is not None)
    final = tuple(replace(p, question=None) if asked_by[normalise(p.question or "")] > 1 else p for p in kept)
    n_ambiguous = sum(n for n in asked_by.values() if n > 1)
    return Corpus(final, n_duplicates, n_ambiguous)


# --- sources ---------------------------------------------------------------------------------


def _all_docstrings(wanted: frozenset[str] | None) -> Iterator[Docstring]:
    """Docstrings of source files, then of compiled modules."""
    root = Path(sysconfig.get_path("stdlib"))
    if root.is_dir():
        for path, module in _source_files(root, wanted):
            yield from _source_docstrings(path, module)
    for internal, public in COMPILED_MODULES:
        if wanted is None or public in wanted:
            yield from _compiled_docstrings(internal, public)


def _source_files(root: Path, wanted: frozenset[str] | None) -> Iterator[tuple[Path, str]]:
    """(path, dotted module name) of every library module below ``root``, sorted."""
    for entry in sorted(root.iterdir(), key=lambda p: p.name):
        if wanted is not None and entry.stem not in wanted:
            continue
        if entry.is_dir() and entry.name.isidentifier() and entry.name not in SKIPPED_FOLDERS:
            if entry.name == "pydoc_data":
                continue
            yield from _package_files(entry, entry.name)
        elif entry.suffix == ".py" and not entry.name.startswith("_sysconfigdata"):
            yield entry, entry.stem


def _package_files(folder: Path, package: str) -> Iterator[tuple[Path, str]]:
    """(path, dotted module name) of a package's modules, sorted, depth first."""
    for entry in sorted(folder.iterdir(), key=lambda p: p.name):
        if entry.is_dir():
            if entry.name.isidentifier() and entry.name not in SKIPPED_FOLDERS:
                yield from _package_files(entry, f"{package}.{entry.name}")
        elif entry.name == "__init__.py":
            yield entry, package
        elif entry.suffix == ".py":
            yield entry, f"{package}.{entry.stem}"


def _source_docstrings(path: Path, module: str) -> Iterator[Docstring]:
    """Docstrings of one source file; a file that does not parse as Python yields nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in old library code
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            return
    text = ast.get_docstring(tree)
    if text:
        yield Docstring(module, "module", text)
    yield from _nested_docstrings(tree.body, module, in_class=False)


def _nested_docstrings(body: Iterable[ast.stmt], prefix: str, *, in_class: bool) -> Iterator[Docstring]:
    """Public classes, functions and methods, also below if/try; not what functions hide."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not _is_public(node.name):
                continue
            name = f"{prefix}.{node.name}"
            is_class = isinstance(node, ast.ClassDef)
            text = ast.get_docstring(node)
            if text:
                kind = "class" if is_class else "method" if in_class else "function"
                yield Docstring(name, kind, text)
            if is_class:
                yield from _nested_docstrings(node.body, name, in_class=True)
        elif isinstance(node, ast.If | ast.Try):
            yield from _nested_docstrings(node.body, prefix, in_class=in_class)
            yield from _nested_docstrings(node.orelse, prefix, in_class=in_class)


def _compiled_docstrings(internal: str, public: str) -> Iterator[Docstring]:
    """Docstrings of a compiled module, its functions, and its classes' methods."""
    try:
        module = importlib.import_module(internal)
    except ImportError:  # not built for this platform
        return
    for name, member in sorted(vars(module).items()):
        if not _is_public(name) or not callable(member):
            continue
        is_class = isinstance(member, type)
        text = _clean_doc(member)
        if text:
            yield Docstring(f"{public}.{name}", "class" if is_class else "function", text)
        if is_class and not issubclass(member, BaseException):
            for attribute, value in sorted(vars(member).items()):
                text = _clean_doc(value)
                if text and callable(value) and not attribute.startswith("__"):
                    yield Docstring(f"{public}.{name}.{attribute}", "method", text)


def _clean_doc(member: object) -> str:
    """The cleaned docstring of an object, empty where it has none."""
    text = getattr(member, "__doc__", None)
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def _topics() -> list[Docstring]:
    """The topics of the language reference, sorted; empty where it is not shipped."""
    try:
        module = importlib.import_module("pydoc_data.topics")
    except ImportError:
        return []
    topics = getattr(module, "topics", None)
    if not isinstance(topics, dict):
        return []
    return [Docstring(k, "language", v) for k, v in sorted(topics.items()) if isinstance(v, str)]


def _is_public(name: str) -> bool:
    """Whether users meet this name: no leading underscore, or a special method."""
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


# --- cutting text ----------------------------------------------------------------------------


def _paragraphs(text: str) -> list[str]:
    """Blank-line separated paragraphs, stripped of outer blank space."""
    return [p.strip("\n").rstrip() for p in re.split(r"\n\s*\n", text) if p.strip()]


def _summary_and_body(docstring: str) -> tuple[str, list[str]]:
    """The summary line (blank space collapsed) and the remaining paragraphs.

    A leading call signature is no summary and is dropped. A first paragraph that is too long for a
    question gives its first sentence.
    """
    paragraphs = _paragraphs(docstring)
    if paragraphs:
        first, *others = paragraphs[0].split("\n")
        if _SIGNATURE.match(first.strip()):
            remaining = "\n".join(others)
            paragraphs = [remaining, *paragraphs[1:]] if remaining.strip() else paragraphs[1:]
    if not paragraphs:
        return "", []
    if len(paragraphs[0].split()) <= MAX_QUESTION_WORDS // 2:
        return " ".join(paragraphs[0].split()), paragraphs[1:]
    question, rest = _first_sentence(paragraphs[0])
    return question, [rest, *paragraphs[1:]] if rest else paragraphs[1:]


def _first_sentence(text: str) -> tuple[str, str]:
    """The first sentence (blank space collapsed) and what follows it."""
    match = _SENTENCE.match(text.lstrip())
    if match is None:
        return " ".join(text.split()), ""
    return " ".join(match.group(1).split()), text.lstrip()[match.end() :].strip()


def _is_fair(question: str, title: str, text: str) -> bool:
    """The text does not repeat the question, and shares enough words with it to be found.

    A summary without ``MIN_SHARED_WORDS`` content words (endings stripped) in its own passage or
    name is no question a lexical retriever could answer.
    """
    shared = set(stemmed_tokens(question)) & {*stemmed_tokens(text), *stemmed_tokens(title)}
    return normalise(question) not in normalise(text) and len(shared) >= MIN_SHARED_WORDS


def _is_question(text: str) -> bool:
    """Long enough to ask, short enough to be one question, and made of words."""
    return MIN_QUESTION_WORDS <= len(text.split()) <= MAX_QUESTION_WORDS and (
        len(normalise(text).split()) >= MIN_QUESTION_WORDS
    )


def _without_headings(text: str) -> str:
    """Drop underlined headings: the line of punctuation and the title above it."""
    lines = text.split("\n")
    underlines = {i for i, line in enumerate(lines) if _UNDERLINE.match(line.strip())}
    return "\n".join("" if i in underlines or i + 1 in underlines else line for i, line in enumerate(lines))


def _n_words(paragraphs: Iterable[str]) -> int:
    """Number of blank-separated words."""
    return sum(len(p.split()) for p in paragraphs)


def _chunks(paragraphs: Sequence[str]) -> list[str]:
    """Group paragraphs into texts of about ``CHUNK_WORDS`` words; a short tail joins the last."""
    groups: list[list[str]] = []
    current: list[str] = []
    for paragraph in paragraphs:
        current.append(paragraph)
        if _n_words(current) >= CHUNK_WORDS:
            groups.append(current)
            current = []
    if current:
        if groups and _n_words(current) < MIN_BODY_WORDS * 2:
            groups[-1].extend(current)
        else:
            groups.append(current)
    return ["\n\n".join(group) for group in groups]
