"""Words as names spell them: without endings, and short (`ctx` for context).

Used to compare a question with names of files and definitions. The words that retrieve chunks are
left as they are: plurals, endings and short forms there cost more than they find (docs/quality.md).
"""

from collections.abc import Sequence


def shorten(word: str) -> str:
    """A word without its common English endings, so that `parsing` meets `parser`."""
    for ending, put in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: len(word) - len(ending)] + put
    return word


_ENDINGS = (
    ("ations", "ate"),
    ("ation", "ate"),
    ("izing", "ize"),
    ("ies", "y"),
    ("ing", ""),
    ("ers", ""),
    ("ors", ""),
    ("er", ""),
    ("or", ""),
    ("ed", ""),
    ("es", ""),
    ("s", ""),
    ("e", ""),
)

_SHORT = """
arg argument, attr attribute, auth authenticate, btn button, calc calculate, char character,
cmd command, col column, conf config configure configuration, conn connect connection,
ctx context, db database, decl declare declaration, def define definition, del delete,
deps dependency, desc describe description, dest destination, dev develop, dir directory folder,
doc document, elem element, env environment, err error, exec execute, expr expression,
ext extension, fmt format, fn func function, gen generate, hdr header, id identifier, idx index,
impl implement, info information, init initial initialize, int integer, iter iterate, len length,
lib library, loc locate location, mem memory, msg message, num number, obj object, op operate,
opt option, param parameter, perm permission, pkg package, pos position, prev previous,
proc process, prop property, ptr pointer, ref reference, regex regexp, repo repository,
req request, res resp response, ret return, seq sequence, spec specify specification, src source,
stmt statement, str string, sync synchronize, sys system, temp tmp temporary, util utility,
val value, var variable, ver version, win window, ws websocket
"""
_GROUPS = [[shorten(word) for word in group.split()] for group in _SHORT.split(",")]
_GROUP_OF = {word: number for number, group in enumerate(_GROUPS) for word in group}


def is_short_form(one: str, other: str) -> bool:
    """Whether two shortened words stand for the same."""
    group = _GROUP_OF.get(one)
    return group is not None and group == _GROUP_OF.get(other)


def other_forms(word: str) -> Sequence[str]:
    """How else a shortened word is spelled in names."""
    group = _GROUP_OF.get(word)
    return () if group is None else _GROUPS[group]
