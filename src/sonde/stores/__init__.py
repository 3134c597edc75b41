"""What is kept: one protocol per kind in `base`, one module per backend."""
