"""Formats that knowledge is brought in from; each turns the bytes of a file into entries.

Parsers run in a limited child process (`knowledge.worker`): they may be slow, greedy or crash.
"""
