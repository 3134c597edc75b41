"""Personal knowledge: brought in, found, and shown in pieces that fit."""
