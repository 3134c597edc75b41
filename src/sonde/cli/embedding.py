"""`sonde embed serve`: the bundled model behind the documented endpoint."""

from __future__ import annotations

from sonde.cli.session import Session
from sonde.errors import StorageUnusable


def run_embed(session: Session) -> int:
    """Serve `POST /embed` on this machine until interrupted."""
    from sonde.embedding.providers import load_provider
    from sonde.embedding.serving import PORT, EmbeddingServer

    port = PORT if session.args.port is None else session.args.port
    embedder = load_provider("deep")
    try:
        server = EmbeddingServer(embedder, port)
    except (OSError, OverflowError) as error:
        raise StorageUnusable(
            f"127.0.0.1:{port}: {error}",
            user_message="The port for embedding is not free.",
            next_action="Choose another with --port, or 0 for any.",
        ) from error
    with server:
        facts = {"url": server.address, "model": embedder.name, "dimensions": embedder.dimensions}
        if session.args.json:
            session.print_json(facts)
        else:
            session.print_lines([f"{embedder.name} at {server.address}  (Ctrl-C ends it)"])
        session.flush()
        try:
            server.serve_forever()
        finally:
            embedder.close()
    return 0
