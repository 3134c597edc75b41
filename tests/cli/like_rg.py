"""`sonde grep` beside the real `rg`: generated command lines over generated files.

Run by hand for more of them: `python -m tests.cli.like_rg --seed 7 --cases 2000`.

Left out by design: order of files without --sort (rg's is not defined), times, messages on stderr,
colours, and what sonde never reads (secrets, `.git`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RG = shutil.which("rg", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
WORDS = "foo Foo FOO bar baz foobar foo_bar item items Item x café CAFÉ naïve 海 12 3.5 a-b".split()
PATTERNS = (
    r"foo Foo bar|baz \bfoo\b fo+ ^foo bar$ ^$ [a-c]+ \w+_\w+ (f)(o+) (?i)foo x.*o café \d+ \. é "
    r"(?P<first>b)a(?P<last>.) item s? \s+ ^\s*foo nosuchword [^a-z\s]+ a-b foo.bar o{2} \S+$ 海"
).split()
PATTERNS += ["", "foo bar", " ", "-b", "a|"]
ACROSS = [r"foo\n", r"bar\s+foo", r"o\n+\w", r"(?s)foo.{1,9}bar", r"[^a]\n", r"baz$\n^"]
FILES = (
    "a.txt README.md src/main.py src/app.js src/deep/util.py src/deep/notes.md a/b.txt a-b/c.txt "
    "lib/x.rs .hidden.py .config/deep.txt vendor/v.py dist/out.js docs/guide.md docs/é.md "
    "ignored/i.py ignored.py keep.log src/Makefile package.lock data.json node_modules/m/i.js"
).split()
EMPTY = {"", "a|", "s?"}
SPANS = {"-o", "--vimgrep", "--count-matches", "--stats", "--json", "-r"}
GITIGNORE = "ignored/\nignored.py\nnode_modules/\n*.tmp\n"
LEFT_OUT = (".git", "vendor", "dist", "*.log", "*.lock", "node_modules")
"""What an index leaves out without being asked to: of this, sonde says how much there is."""
FORMS = (
    "-n -N -c -l -o -v -i -s -S -w -x -F -H -I --column --vimgrep --heading --no-heading "
    "--files-without-match --count-matches -U --json --stats --hidden -u -uu --no-ignore -. -L"
).split()
VALUES = {
    "-A": ["0", "1", "3"],
    "-B": ["1", "2"],
    "-C": ["1", "2"],
    "-m": ["1", "2"],
    "-g": [
        "*.py",
        "!*.md",
        "src/**",
        "!docs",
        "*.{py,js}",
        "**/deep/*",
        "/a.txt",
        "[a-d]*",
        "!src",
    ],
    "-t": ["py", "md", "rust", "json"],
    "-T": ["py", "md", "js"],
    "-r": ["X", "$0$0", "<$1>", "${first}-$last", "$$", ""],
    "-e": PATTERNS,
    "--iglob": ["*.PY", "README*"],
}
PATHS = [
    [], [], [], ["src"], ["src/"], ["."], ["./src", "docs"], ["a.txt"], ["a.txt", "src/main.py"],
    ["vendor"], ["ignored.py"], ["src/deep/util.py"], ["nosuch"], ["a.txt", "nosuch"], [".config"],
    ["-"], ["ignored"], ["../corpus/src"],
]  # fmt: skip


def write_corpus(folder: Path, rng: random.Random) -> None:
    """Small files with matches at every edge: empty lines, no last line break, other scripts."""
    for number, name in enumerate(FILES):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            rng.choice(["", " ", "\t"]) + " ".join(rng.choices(WORDS, k=rng.randrange(5)))
            for _ in range(rng.randrange(1, 14))
        ]
        text = "\n".join(lines) + rng.choice(["\n", "\n", ""])
        path.write_text("" if number == 12 else text, "utf-8")
        os.utime(path, ns=(10**18 + number * 10**9,) * 2)
    (folder / ".gitignore").write_text(GITIGNORE)
    (folder / "link.txt").symlink_to("a.txt")
    (folder / "lib" / "linked").symlink_to(folder / "src" / "deep")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def draw_arguments(rng: random.Random) -> tuple[list[str], bool]:
    """A command line, and whether something is piped in."""
    options = rng.sample(FORMS, rng.choice([0, 1, 1, 2, 2, 3, 4]))
    for name in rng.sample(list(VALUES), rng.choice([0, 0, 1, 1, 2])):
        options += [name, rng.choice(VALUES[name])]
    if rng.random() < 0.05:
        options.append("--files")
    patterns = ACROSS if "-U" in options and rng.random() < 0.7 else PATTERNS
    words = [] if "-e" in options or "--files" in options else [rng.choice(patterns)]
    if EMPTY & {*words, *options} and SPANS & {*options}:
        return draw_arguments(rng)  # of empty matches, rg also finds those inside a character
    columns = {"--vimgrep", "--column"} & {*options}
    if (columns or "-r" in options) and "-v" in options and {"-A", "-B", "-C"} & {*options}:
        return draw_arguments(rng)  # rg shows the column of a match in lines that are context
    if columns and "-U" in options:
        return draw_arguments(rng)  # rg counts columns from the first line of several matches
    if words and words[0].startswith("-"):
        words = ["-e", *words]
    paths = rng.choice(PATHS)
    linked = "-L" in options  # what is found twice has one time, and then no order
    order = ["--sort", "path" if linked else rng.choice(["path", "path", "modified"])]
    piped = "-" in paths or (not paths and rng.random() < 0.08)
    parts = [order, options, [*words, *paths]]
    if rng.random() < 0.3 and not any(word.startswith("-") for word in words):
        parts.reverse()
    return [word for part in parts for word in part], piped


@dataclass(frozen=True)
class Outcome:
    """What a command printed, without what is never the same twice."""

    code: int
    out: bytes

    @classmethod
    def read(cls, code: int, out: bytes) -> Outcome:
        out = re.sub(rb"[0-9.]+ seconds", b"T seconds", out)
        out = re.sub(rb"[0-9]+ bytes searched", b"N bytes searched", out)  # -m ends a file early
        return cls(code, b"\n".join(map(_settle, out.split(b"\n"))))


def _settle(line: bytes) -> bytes:
    if not line.startswith((b'{"type"', b'{"data"')):
        return line
    message = json.loads(line)
    message["data"].pop("elapsed_total", None)
    for name in ("elapsed", "bytes_searched"):
        message["data"].get("stats", {}).pop(name, None)
    return json.dumps(message, sort_keys=True).encode()


SERVER = """
import json, os, sys
import sonde.cli.main, sonde.cli.commands.grep, sonde.cli.session, sonde.wiring
for line in sys.stdin:
    argv, stdin, out = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        sys.stdin = open(0)
        sys.stdout = open(1, "w", closefd=False)
        code = sonde.cli.main.main(argv)
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def compare(folder: Path, home: Path, seed: int, cases: int) -> Iterator[str]:
    """Run both with the same arguments, each in a process of its own; yields the differences."""
    assert RG is not None
    rng = random.Random(seed)
    corpus = folder / "corpus"
    corpus.mkdir()
    write_corpus(corpus, rng)
    fed, empty, out = folder / "fed", Path(os.devnull), folder / "out"
    fed.write_text("foo\nbar foo\n\nbaz\n")
    environ = {**os.environ, "HOME": str(home), "PYTHONUTF8": "1"}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], cwd=corpus, env=environ, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert server.stdin
    assert server.stdout
    with server:
        for number in range(cases):
            if number == cases // 2:  # from now on, an index narrows what is read
                order = [["index", "--yes", str(corpus)], str(empty), str(out)]
                server.stdin.write(json.dumps(order) + "\n")
                server.stdin.flush()
                assert int(server.stdout.readline()) == 0
            argv, piped = draw_arguments(rng)
            stdin = fed if piped else empty
            with stdin.open("rb") as given:
                theirs = subprocess.run(
                    [RG, *(word for name in LEFT_OUT for word in ("-g", f"!{name}")), *argv]
                    if not {"-u", "-uu", "--no-ignore"} & {*argv} else [RG, "-g", "!.git", *argv],
                    cwd=corpus, env=environ, stdin=given, capture_output=True,
                )  # fmt: skip
            server.stdin.write(json.dumps([["grep", *argv], str(stdin), str(out)]) + "\n")
            server.stdin.flush()
            code = int(server.stdout.readline())
            rg = Outcome.read(theirs.returncode, theirs.stdout)
            ours = Outcome.read(code, out.read_bytes())
            if rg != ours:
                yield f"{argv}{' < fed' * piped}\nrg   {rg}\nours {ours}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        home.mkdir()
        count = 0
        for difference in compare(Path(name), home, options.seed, options.cases):
            count += 1
            print(difference, end="\n\n")
    print(f"{options.cases} command lines, {count} differ")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
