"""Imports real public samples of every format, and writes down what came in.

    python scripts/samples.py FOLDER [--only WORD] [--keep HOME] [--write]

FOLDER holds clones of public repositories as `owner+name` (bare or not, or with the Git directory
in `owner+name/repo`). Nothing of them is kept in this project: each sample is taken out of the
clone's last commit into a temporary folder and brought in by `sonde knowledge import`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).resolve().parent.parent / "docs" / "knowledge-samples.md"
COMMAND = [sys.executable, "-m", "sonde.cli.main", "--json", "knowledge"]


class Sample(NamedTuple):
    """Files of one format in one repository."""

    form: str
    repository: str
    paths: tuple[str, ...]
    """As Git matches paths."""
    wanted: str = ""
    commit: str = "HEAD"


SAMPLES = (
    Sample("ChatGPT export", "mitkury/chatgpt-export-parser", ("tests/example-conversation.json",)),
    Sample("ChatGPT export", "joeamroo/knowledgemaxxing",
           ("tests/fixtures/conversations_chatgpt.json",)),
    Sample("Claude export", "0x1Adi/chatlectify", ("tests/fixtures/claude_export.json",)),
    Sample("Claude export", "joeamroo/knowledgemaxxing",
           ("tests/fixtures/conversations_claude.json",)),
    Sample("Gemini activity", "joeamroo/knowledgemaxxing", ("tests/fixtures/MyActivity.json",)),
    Sample("Claude Code log", "daaain/claude-code-log", ("test/test_data/*.jsonl",)),
    Sample("Codex log", "lparlett/Codex-Sessions-Tool", ("tests/fixtures/*.jsonl",)),
    Sample("Codex log", "AcidicSoil/codex-session-viewer", ("docs/example.jsonl",)),
    Sample("WhatsApp", "joweich/chat-miner", ("test/whatsapp/*.txt",)),
    Sample("WhatsApp", "lucasrodes/whatstk", ("chats/whatsapp/*.txt",)),
    Sample("Telegram", "joweich/chat-miner", ("test/telegram/*export.json",)),
    Sample("Slack", "hfaran/slack-export-viewer", ("tests/testarchive.zip",)),
    Sample("Mail (eml)", "mikel/mail", ("spec/fixtures/emails/**/*.eml",)),
    Sample("Mail (no ending)", "SpamScope/mail-parser", ("tests/mails/*",)),
    Sample("SubRip", "cdown/srt", ("srt_tools/tests/files/*.srt",)),
    Sample("SubRip", "glut23/webvtt-py", ("tests/subtitles/*.srt",)),
    Sample("WebVTT", "glut23/webvtt-py", ("tests/subtitles/*.vtt",)),
    Sample("Card V3 in PNG", "SillyTavern/SillyTavern", ("default/content/default_Seraphina.png",)),
    Sample("Cards V1, V2", "ossirytk/llama-cpp-chat-memory", ("*character*.json", "*.png")),
    Sample("fabric patterns", "danielmiessler/fabric", ("data/patterns/*",)),
    Sample("Prompts in CSV", "f/awesome-chatgpt-prompts", ("prompts.csv",),
           commit="2bd699f3b548"),
    Sample("Obsidian vault", "kepano/kepano-obsidian", ("*",)),
    Sample("Obsidian vault", "obsidianmd/obsidian-help", ("en/*",)),
    Sample("Logseq graph", "logseq/docs", ("pages/*", "journals/*", "assets/*", "logseq/*")),
    Sample("Joplin, Markdown", "laurent22/joplin", ("readme/*.md",), "notes"),
    Sample("Evernote", "laurent22/joplin", ("packages/app-cli/tests/enex_to_md/*.enex",)),
    Sample("Evernote", "obsidianmd/obsidian-importer", ("tests/evernote/*.enex",)),
    Sample("Notion export", "obsidianmd/obsidian-importer", ("tests/notion/*.zip",)),
    Sample("Apple Notes", "RhetTbull/apple-notes-parser", ("tests/data/NoteStore-*.sqlite",)),
)  # fmt: skip


def main() -> int:
    """Bring every sample in, and tell what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="samples whose format or repository has this")
    parser.add_argument("--keep", type=Path, help="bring everything into this home, to look at")
    parser.add_argument("--write", action="store_true", help=f"update {PAGE.name}")
    options = parser.parse_args()
    rows: list[str] = []
    for sample in SAMPLES:
        if options.only.lower() not in f"{sample.form} {sample.repository}".lower():
            continue
        with tempfile.TemporaryDirectory() as place:
            taken, commit = take_out(sample, options.folder, Path(place) / "sample")
            if not taken:
                print(f"{sample.form}: {sample.repository} is not there", file=sys.stderr)
                continue
            home = options.keep or Path(place) / "home"
            report = bring_in(Path(place) / "sample", home, sample.wanted)
        row = describe(sample, commit, taken, report)
        print(row, flush=True)
        rows.append(row)
    if options.write:
        head, _, _ = PAGE.read_text("utf-8").partition("| format |")
        table = ["| format | sample | files | imported | left out |", "|---|---|---|---|---|"]
        PAGE.write_text(head + "\n".join([*table, *rows]) + "\n", "utf-8")
    return 0 if rows else 1


def take_out(sample: Sample, folder: Path, target: Path) -> tuple[int, str]:
    """Write the files of a sample; how many, and of which commit."""
    place = folder / sample.repository.replace("/", "+")
    place = next((each for each in (place / "repo", place / ".git", place) if each.is_dir()), place)
    if not place.is_dir():
        return 0, ""
    git = ["git", f"--git-dir={place}"]
    commit = subprocess.run(
        [*git, "rev-parse", sample.commit], capture_output=True, text=True, check=True
    )
    # ls-files knows the wildcards of Git, and needs an index: one of its own
    environ = os.environ | {"GIT_INDEX_FILE": str(target.with_name("index"))}
    subprocess.run([*git, "read-tree", sample.commit], env=environ, check=True)
    listed = subprocess.run(
        [*git, "--work-tree=/", "ls-files", "-s", "-z", "--", *sample.paths],
        env=environ, capture_output=True, check=True, cwd="/",
    )  # fmt: skip
    count = 0
    for row in filter(None, listed.stdout.split(b"\0")):
        facts, _, name = row.partition(b"\t")
        mode, blob, _ = facts.decode().split()
        data = subprocess.run([*git, "cat-file", "blob", blob], capture_output=True, check=False)
        if data.returncode or not mode.startswith("100"):
            continue
        path = target / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.stdout)
        count += 1
    return count, commit.stdout.strip()[:10]


def bring_in(folder: Path, home: Path, wanted: str) -> dict[str, Any]:
    """What `sonde knowledge import` says, and how many entries of each source there are then."""
    environ = os.environ | {"SONDE_HOME": str(home), "SONDE_EMBEDDING": "none"}
    options = ["--as", wanted] if wanted else []
    done = subprocess.run([*COMMAND, "import", str(folder), *options], env=environ,
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{folder}: {done.stderr}")
    status = subprocess.run(
        [*COMMAND, "status"], env=environ, capture_output=True, text=True, check=True
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report | {"sources": json.loads(status.stdout)}


def describe(sample: Sample, commit: str, files: int, report: dict[str, Any]) -> str:
    """A row of the table."""
    counts = {name: count for name, count in report["sources"].items() if name != "bytes"}
    came = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing"
    if report["redacted"]:
        came += f"; {report['redacted']} secrets left out"
    reasons: Counter[str] = Counter()
    for each in report["examples"]:
        suffix = Path(each["path"]).suffix or "no ending"
        reasons[f"{each['reason']} {suffix}"] += 1
    left = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common(6))
    place = f"[{sample.repository}](https://github.com/{sample.repository}) `{sample.paths[0]}`"
    return f"| {sample.form} | {place} at {commit} | {files:,} | {came} | {left or '-'} |"


if __name__ == "__main__":
    sys.exit(main())
