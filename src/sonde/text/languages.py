"""Languages of files by file name: name, kind (code, docs, data) and grammar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LanguageKind = Literal["code", "docs", "data"]


@dataclass(frozen=True, slots=True)
class Language:
    """The language of a file; `grammar` is its tree-sitter parser, if there is one."""

    name: str
    kind: LanguageKind
    grammar: str | None = None


UNKNOWN = Language("text", "data")
"""Any other text: searched as code, split by lines."""

_GRAMMARS = {
    "bash": "sh bash zsh ksh bats ebuild .bashrc .bash_profile .bash_aliases .bash_logout "
        ".profile .zshrc .zshenv .zprofile .kshrc PKGBUILD",
    "c": "c", "cpp": "cc cpp cxx c++ hh hpp hxx h++ inl ipp tpp cu cuh ino", "csharp": "cs csx",
    "elixir": "ex exs", "go": "go", "haskell": "hs hs-boot", "java": "java",
    "javascript": "js jsx mjs cjs es6 Jakefile", "kotlin": "kt kts", "lua": "lua luau rockspec",
    "php": "php php3 php4 php5 phtml phpt",
    "python": "py pyi pyw pyx pxd wsgi SConstruct SConscript wscript BUCK",
    "ruby": "rb rake gemspec ru podspec jbuilder rabl thor Rakefile Gemfile Guardfile Capfile "
        "Vagrantfile Podfile Brewfile Fastfile Appraisals Thorfile Dangerfile",
    "rust": "rs", "scala": "scala sc sbt mill", "swift": "swift", "typescript": "ts mts cts",
    "zig": "zig zon",
}  # fmt: skip

_CODE = {
    "ada": "adb ads ada", "apex": "cls trigger", "assembly": "asm s nasm", "astro": "astro",
    "awk": "awk", "batch": "bat cmd", "bazel": "bzl bazel BUILD WORKSPACE Tiltfile",
    "blade": "blade", "clojure": "clj cljs cljc edn bb", "cmake": "cmake CMakeLists.txt",
    "cobol": "cob cbl cpy", "coffeescript": "coffee cson litcoffee Cakefile",
    "common-lisp": "lisp lsp cl asd", "crystal": "cr", "css": "css", "cypher": "cypher cql",
    "d": "d di", "dart": "dart", "dockerfile": "dockerfile Dockerfile Containerfile", "elm": "elm",
    "emacs-lisp": "el .emacs", "erlang": "erl hrl escript rebar.config", "fish": "fish",
    "forth": "fth 4th", "fortran": "f f77 f90 f95 f03 f08 for", "fsharp": "fs fsi fsx",
    "gdscript": "gd", "gherkin": "feature", "gleam": "gleam",
    "glsl": "glsl vert frag geom comp tesc tese", "gradle": "gradle",
    "graphql": "graphql gql graphqls", "groovy": "groovy gvy gy Jenkinsfile", "hack": "hack hhi",
    "haml": "haml", "handlebars": "hbs handlebars mustache", "haxe": "hx", "hcl": "hcl tf tfvars",
    "hlsl": "hlsl fx fxh", "html": "html htm xhtml shtml vbhtml", "idris": "idr",
    "jinja": "jinja jinja2 j2 njk twig liquid", "julia": "jl", "just": "just Justfile justfile",
    "less": "less", "llvm": "ll",
    "make": "mk mak make Makefile makefile GNUmakefile Makefile.am Makefile.in BSDmakefile",
    "matlab": "mlx", "meson": "meson.build meson_options.txt", "metal": "metal", "mojo": "mojo",
    "move": "move", "nim": "nim nims nimble", "nix": "nix", "objective-c": "m mm",
    "ocaml": "ml mli mll mly", "odin": "odin", "pascal": "pas pp dpr lpr",
    "perl": "pl pm t pod6 Makefile.PL", "plsql": "pls pck pkb pks plsql",
    "powershell": "ps1 psm1 psd1", "prisma": "prisma", "processing": "pde", "prolog": "pro prolog",
    "protobuf": "proto", "pug": "pug jade", "puppet": "epp", "purescript": "purs", "qml": "qml",
    "r": "r rmd .Rprofile", "racket": "rkt scrbl", "raku": "raku rakumod p6",
    "razor": "cshtml razor", "reason": "re rei", "rescript": "res resi", "sass": "sass",
    "scheme": "scm ss sld", "scss": "scss", "slim": "slim", "smalltalk": "st", "solidity": "sol",
    "sparql": "rq sparql", "sql": "sql ddl dml psql", "standard-ml": "sml sig fun",
    "starlark": "star", "stylus": "styl", "svelte": "svelte", "systemverilog": "sv svh",
    "tcl": "tcl tk", "template": "erb ejs eex heex leex tmpl tpl gotmpl jsp jspx aspx ascx ftl vm",
    "thrift": "thrift", "toit": "toit", "vala": "vala vapi", "verilog": "v vh", "vhdl": "vhd vhdl",
    "vim": "vim vimrc .vimrc _vimrc .gvimrc", "visual-basic": "vb vbs bas frm", "vue": "vue",
    "webassembly": "wat wast", "wgsl": "wgsl", "xquery": "xq xquery xqm", "xslt": "xsl xslt",
    "yacc": "y yy l lex",
}  # fmt: skip

_DOCS = {
    "asciidoc": "adoc asciidoc asc", "jupyter": "ipynb", "latex": "tex ltx sty bib",
    "man": "1 man mdoc",
    "markdown": "md markdown mdown mkd mkdn mdx mdc qmd", "org": "org", "pod": "pod",
    "rst": "rst rest", "textile": "textile",
    "text": "txt text README LICENSE LICENCE COPYING NOTICE AUTHORS CONTRIBUTORS CHANGELOG "
        "CHANGES HISTORY NEWS TODO INSTALL MAINTAINERS THANKS UPGRADING CONTRIBUTING PATENTS "
        "CREDITS HACKING llms.txt robots.txt",
    "typst": "typ", "wiki": "wiki mediawiki",
}  # fmt: skip

_DATA = {
    "cfg": "cfg cnf conf properties prefs desktop service timer socket mount rules",
    "csv": "csv tsv psv", "diff": "diff patch",
    "dotfile": ".gitignore .gitattributes .gitmodules .dockerignore .npmignore .eslintignore "
        ".prettierignore .editorconfig .clang-format .clang-tidy .mailmap .npmrc .yarnrc .nvmrc "
        ".inputrc .gitconfig .wgetrc .curlrc .tmux.conf .browserslistrc .htaccess CODEOWNERS",
    "ini": "ini",
    "json": "json jsonc json5 jsonl ndjson geojson webmanifest topojson har avsc map "
        ".babelrc .eslintrc .prettierrc .jshintrc .swcrc composer.lock flake.lock Pipfile.lock",
    "lock": "lock yarn.lock Gemfile.lock Cargo.lock poetry.lock go.sum mix.lock", "log": "log",
    "gomod": "go.mod go.work", "plist": "plist entitlements strings",
    "requirements": "requirements.txt constraints.txt", "subtitles": "srt vtt", "svg": "svg",
    "toml": "toml Pipfile", "translation": "po pot", "turtle": "ttl nt nq",
    "xml": "xml xsd wsdl dtd rss atom resx csproj fsproj vbproj vcxproj props targets sln nuspec "
        "xaml axaml storyboard xib gpx kml pom iml",
    "yaml": "yaml yml .clangd",
}  # fmt: skip


def _build_table() -> tuple[dict[str, Language], dict[str, Language]]:
    extensions: dict[str, Language] = {}
    names: dict[str, Language] = {}
    kinds: tuple[LanguageKind, ...] = ("code", "code", "docs", "data")
    for kind, group in zip(kinds, (_GRAMMARS, _CODE, _DOCS, _DATA), strict=True):
        for name, entries in group.items():
            language = Language(name, kind, name if group is _GRAMMARS else None)
            for entry in entries.split():
                whole = "." in entry or entry[:1].isupper() or entry in _LOWER_NAMES
                (names if whole else extensions)[entry] = language
    return extensions, names


_LOWER_NAMES = frozenset({"makefile", "justfile", "vimrc", "_vimrc", "wscript", "dockerfile"})
_EXTENSIONS, _NAMES = _build_table()
NAMES = frozenset(known.name for table in (_EXTENSIONS, _NAMES) for known in table.values()) | {
    UNKNOWN.name
}
"""The names of all languages."""
# A header may be of either language; the larger grammar reads both.
_EXTENSIONS |= {
    "h": Language("c", "code", "cpp"),
    "tsx": Language("typescript", "code", "tsx"),
    "dockerfile": _NAMES["Dockerfile"],
}


def list_languages() -> dict[str, tuple[Language, list[str]]]:
    """Every language by name, with the endings (`.py`) and whole names of its files."""
    found: dict[str, tuple[Language, list[str]]] = {}
    endings = {f".{ending}": language for ending, language in _EXTENSIONS.items()}
    for ending, language in sorted((endings | _NAMES).items()):
        found.setdefault(language.name, (language, []))[1].append(ending)
    return dict(sorted(found.items()))


_ALIASES = {
    "c#": "csharp", "c++": "cpp", "c/c++": "cpp", "docker": "dockerfile", "f#": "fsharp",
    "golang": "go", "js": "javascript", "node": "javascript", "objc": "objective-c",
    "objectivec": "objective-c", "shell": "bash", "terraform": "hcl", "makefile": "make",
    "lisp": "common-lisp", "elisp": "emacs-lisp", "plaintext": "text", "plain text": "text",
    "protocol buffers": "protobuf", "restructuredtext": "rst", "vb": "visual-basic",
}  # fmt: skip
"""Common names that are not an extension of the language."""


def find_language(name: str) -> str:
    """The language of a name, alias or extension (`.ts`, `C++`); the name itself if unknown."""
    wanted = name.strip().lower()
    if wanted in NAMES:
        return wanted
    known = _EXTENSIONS.get(wanted.removeprefix("."))
    return _ALIASES.get(wanted) or (known.name if known else wanted)


def language_of(path: str) -> Language:
    """The language of a file by its name: the whole name first, then its last extension."""
    name = path.rpartition("/")[2]
    known = _NAMES.get(name)
    if known:
        return known
    stem, dot, extension = name.rpartition(".")
    if not dot:
        return UNKNOWN
    known = _EXTENSIONS.get(extension.lower())
    # `Dockerfile.dev` and `README.fr` are named by their first part.
    return known or _NAMES.get(stem) or _NAMES.get(stem.partition(".")[0]) or UNKNOWN
