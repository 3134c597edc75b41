"""One serializer per family of documents."""
