"""What `make release` makes: the packages, what is in them, where it comes from, and a signature.

    python scripts/release.py OUT [--key FILE] [--home URL]

OUT gets the sdist and the wheel, `sonde.mcpb` (a bundle for MCP hosts, which holds the wheel),
`server.json` (for the MCP registry; it names the bundle below HOME and its hash), `Containerfile`
and `compose.yaml`, `sonde.cdx.json` (the SBOM, CycloneDX 1.5: every package that an
install may bring, with version, licence and hashes), `licences.md` (of everything bundled and of
these packages), `SHA256SUMS` and, with the maintainer's SSH key, its signature `SHA256SUMS.sig`:

    ssh-keygen -Y verify -f allowed_signers -I sonde -n sonde-release -s SHA256SUMS.sig < SHA256SUMS
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from bundle import write_bundle, write_server_entry
from lock import read_lock, read_project
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
MODELS = "sonde/embedding/models/"
HOME = "https://example.org/sonde"
"""Until there is a public home: a domain that is reserved, so that nobody can take the name."""
BUNDLED = {
    "deep.onnx": ("ibm-granite/granite-embedding-30m-english, fine-tuned", "Apache-2.0"),
    "deep-vocab.txt": ("vocabulary of granite-embedding-30m-english", "Apache-2.0"),
    "everyday-rows.npy": ("minishlab/potion-base-8M over the static table's pieces", "MIT"),
    "everyday-scales.npy": ("minishlab/potion-base-8M over the static table's pieces", "MIT"),
    "static-rows.npy": ("trained from sentence-transformers/all-MiniLM-L6-v2", "Apache-2.0"),
    "static-scales.npy": ("trained from sentence-transformers/all-MiniLM-L6-v2", "Apache-2.0"),
    "static-vocab.txt": ("word pieces of bert-base-uncased and words of code", "Apache-2.0"),
}
"""Files of the wheel that were not written by the sonde authors: origin and licence.
MODEL_CARD.md says how they were made, training/README.md how to make them again."""


def build(folder: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def list_bundled(wheel: Path) -> Iterator[tuple[str, str, str, str]]:
    """Name, origin, licence and hash of each bundled file; fails on one that is not listed."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(MODELS)]
        for name in names:
            short = name.removeprefix(MODELS)
            if short.endswith(".md"):
                continue
            if short not in BUNDLED:
                sys.exit(f"{name} is bundled, and scripts/release.py does not say where it is from")
            yield short, *BUNDLED[short], hashlib.sha256(archive.read(name)).hexdigest()


def list_packages() -> dict[str, str]:
    """Every package that an install may bring -> `required` or `optional`."""
    parts = {name: texts for name, texts in read_project().items() if name != "dev"}
    found: dict[str, str] = {}
    seen: set[tuple[str, ...]] = set()
    for part, texts in parts.items():
        scope = "optional" if part else "required"
        waiting = [each for each in map(Requirement, texts) if _applies(each, set())]
        while waiting:
            requirement = waiting.pop()
            name = canonicalize_name(requirement.name)
            if (name, *sorted(requirement.extras)) in seen:
                continue
            seen.add((name, *sorted(requirement.extras)))
            found.setdefault(name, scope)
            for text in _requires(name):
                inner = Requirement(text)
                if _applies(inner, requirement.extras):
                    waiting.append(inner)
    return found


def _requires(name: str) -> list[str]:
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        return []  # of an extra that is not installed here; its name and version are locked


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def read_licence(name: str) -> str:
    """As the package states it; the last word of a classifier if it has no expression."""
    try:
        about = distribution(name).metadata
    except PackageNotFoundError:
        return "not installed"
    stated = about.get("License-Expression") or ""
    classifiers = [c for c in about.get_all("Classifier") or [] if c.startswith("License ::")]
    named = " OR ".join(dict.fromkeys(c.rpartition(" :: ")[2] for c in classifiers))
    brief = (about.get("License") or "").strip().splitlines()[:1]
    return stated or named or (brief[0] if brief else "") or "not stated"


def make_sbom(version: str, wheel: Path) -> dict[str, object]:
    locked = read_lock()
    components: list[dict[str, object]] = [
        {
            "type": "library",
            "name": name,
            "version": str(locked[name][0]),
            "scope": scope,
            "purl": f"pkg:pypi/{name}@{locked[name][0]}",
            "licenses": [{"license": {"name": read_licence(name)}}],
            "hashes": [{"alg": "SHA-256", "content": each} for each in locked[name][1]],
        }
        for name, scope in sorted(list_packages().items())
    ]
    components += [
        {
            "type": "machine-learning-model",
            "name": name,
            "description": origin,
            "licenses": [{"license": {"id": licence}}],
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for name, origin, licence, digest in list_bundled(wheel)
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "sonde",
                "version": version,
                "purl": f"pkg:pypi/sonde@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
    }


def write_licences(sbom: dict[str, object], path: Path) -> None:
    components = sbom["components"]
    assert isinstance(components, list)
    lines = ["# Licences", "", "sonde: Apache-2.0. In the wheel, from others:", ""]
    lines += ["| file | origin | licence |", "|---|---|---|"]
    for each in components:
        if "description" in each:
            licence = each["licenses"][0]["license"]["id"]
            lines.append(f"| `{each['name']}` | {each['description']} | {licence} |")
    lines += ["", "Installed beside it, none of it bundled:", ""]
    lines += ["| package | version | | licence |", "|---|---|---|---|"]
    for each in components:
        if "purl" in each:
            licence = each["licenses"][0]["license"]["name"]
            lines.append(f"| {each['name']} | {each['version']} | {each['scope']} | {licence} |")
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--home", default=HOME, help="where the release will be downloaded from")
    parser.add_argument("--key", type=Path, help="the maintainer's SSH key")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    build(args.out)
    (wheel,) = args.out.glob("sonde-*.whl")
    sbom = make_sbom(wheel.name.split("-")[1], wheel)
    (args.out / "sonde.cdx.json").write_text(json.dumps(sbom, indent=1) + "\n")
    write_licences(sbom, args.out / "licences.md")
    bundle = write_bundle(wheel, args.out / "sonde.mcpb")
    write_server_entry(args.home, bundle, args.out / "server.json")
    for name in ("Containerfile", "compose.yaml"):
        shutil.copy(ROOT / "packaging" / name, args.out)
    made = sorted(path for path in args.out.iterdir() if not path.name.startswith("SHA256SUMS"))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made]
    (args.out / "SHA256SUMS").write_text("".join(sums))
    if args.key:
        (args.out / "SHA256SUMS.sig").unlink(missing_ok=True)
        sign = ["ssh-keygen", "-q", "-Y", "sign", "-n", "sonde-release", "-f", str(args.key)]
        subprocess.run([*sign, str(args.out / "SHA256SUMS")], check=True)
    else:
        print("not signed: pass the maintainer's key (make release KEY=FILE)", file=sys.stderr)
    print("".join(sums), end="")


if __name__ == "__main__":
    main()
