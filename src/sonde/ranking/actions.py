"""Whether a query says what is done, and so asks for a function, or names a topic."""

from __future__ import annotations

import re
from itertools import pairwise

_ACTIONS = frozenset(
    """
accept add adjust allocate append apply assert assign attach begin bind block build calculate call
cancel change check choose clean clear clone close collect combine compare compile complete
compute configure connect consume convert copy count create decide decode decrement define delete
deserialize destroy detach detect determine disable discard dispatch display divide download draw
drop emit enable encode ensure escape evaluate examine execute expand export extract fetch fill
filter find finish flush forward free generate get give handle hash ignore import increment
indicate initialize insert inspect install invoke join keep launch list listen load locate log
look lookup make map mark match merge modify move multiply normalize notify obtain open override
parse pass perform pop prepare prepend print process produce provide push put raise read receive
record reduce refresh register release reload remove rename render repeat replace report reset
resolve restore resume retrieve return reverse rewrite run save scan schedule search select send
serialize set show skip sort specify split start stop store strip submit subscribe swap take test
throw transform translate trigger trim truncate try unregister unwrap update upload validate
verify visit wait walk wrap write yield
""".split()
)
"""Verbs with which programmers say what a function does."""
_OPENINGS = frozenset({"called", "given", "if", "whether"})
_ARTICLES = frozenset("a all an any each every if its one the this two whether".split())
_NEVER_VERBS = frozenset(
    "a an and are as at between by can do does for from has have how i in into is my of on or that "
    "the their then there these to via was we what when where which who why will with within would "
    "you your".split()
)
_FUNCTION = re.compile(
    r"(?:\S+ ){0,5}(?:callback|function|helper|method|routine) (?:called|for|that|to|used|which)\b"
)
_LABEL = re.compile(
    r"^\W*(?:(?:internal|note|private|public):\s|how (?:to|do i|can i)\s"
    r"|(?:c|go|java|javascript|kotlin|php|python|ruby|rust|scala|swift|typescript)[ \d.]*\s)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z][\w'-]*")
_SHORTEST_ACTION = 4  # words: `parse url` names a topic as well


def says_action(line: str) -> bool:
    """Whether a line says what is done: `reads the file`, `helper that reads`, `fold the list`.

    A noun phrase, which names a topic, has no article after its first word.
    """
    plain = _LABEL.sub("", line).lower()
    words = _WORD.findall(plain)
    if len(line.split()) < _SHORTEST_ACTION or len(words) < _SHORTEST_ACTION - 1:
        return False
    first, second = words[:2]
    if _is_action(first) or first in _OPENINGS:
        return True
    if first in _NEVER_VERBS:
        return False
    is_verb = second in _ARTICLES and not first.endswith("ing")
    is_third_person = any(
        verb.endswith("s") and after in _ARTICLES and _is_action(verb)
        for verb, after in pairwise(words[1:5])
    )
    return is_verb or is_third_person or _FUNCTION.match(plain) is not None


def _is_action(word: str) -> bool:
    forms = {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word)}
    return not _ACTIONS.isdisjoint(forms)
