"""Whether a query describes a definition, as its documentation does, or names a topic."""

from __future__ import annotations

import re

_ACTIONS = frozenset(
    """
accept add adjust allocate append apply assert assign attach attempt begin bind block build
calculate call cancel change check choose clean clear clone close collect combine compare compile
complete compress compute configure connect consume contain convert copy count create decide
decode decompress decrement decrypt define delegate delete deserialize destroy detach detect
determine disable discard dispatch display divide download drain draw drop emit enable encode
encrypt ensure escape evaluate examine execute expand export expose extract fetch fill filter find
finish flush force forward free generate get give handle hash hold ignore implement import
increment indicate initialize insert inspect install intercept invoke iterate join keep launch
list listen load locate lock log look lookup make map mark match merge modify move multiply
navigate normalize notify obtain open override parse pass perform pop prepare prepend print
process produce provide publish push put raise read rebuild receive record reduce refresh register
release reload remove rename render repeat replace report represent reset resolve restore resume
retrieve retry return reverse rewrite run save scan schedule search select send serialize serve
set show skip sort specify split start stop store strip submit subscribe swap take test throw
transform translate trigger trim truncate try unlock unregister unwrap update upload use validate
verify visit wait walk wrap write yield
""".split()
)
"""Verbs with which programmers say what a function does."""
_OPENINGS = frozenset({"called", "given", "if", "used", "whether"})
_SENTENCE_WORDS = frozenset(
    "a all an any each every if its one that the this two whether which".split()
)
"""Articles and the like, which sentences have and names of topics do without."""
_ASKING = frozenset(
    "are can do does has have how i is my should we what when where which who why will would you "
    "your".split()
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
_SHORTEST_PHRASE = 6  # `weights of the ranking features` does, too; `fold the list` does not


def is_description(line: str) -> bool:
    """Whether a line says what is done or what something is: `reads the file`, `recursively drops
    empty folders`, `fold the list`, `path to the folder of templates`.

    A question (`how are requests routed`) and a noun phrase without articles name a topic.
    """
    plain = _LABEL.sub("", line).lower()
    words = _WORD.findall(plain)
    if len(line.split()) < _SHORTEST_ACTION or len(words) < _SHORTEST_ACTION - 1:
        return False
    first = words[0]
    opening = words[:2] if first.endswith("ly") else words[:1]  # `recursively drops`, `apply`
    if any(_is_action(word) or word in _OPENINGS for word in opening):
        return True
    if first in _ASKING or first.endswith("ing"):
        return False
    looked_at = words if len(words) >= _SHORTEST_PHRASE else words[:2]
    return not _SENTENCE_WORDS.isdisjoint(looked_at) or _FUNCTION.match(plain) is not None


def _is_action(word: str) -> bool:
    forms = {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word)}
    return not _ACTIONS.isdisjoint(forms)
