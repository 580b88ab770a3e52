"""Kiln's Python client. Standard library only; importing it starts nothing."""

from kiln.key import Parameter, canonical_encoding, compile_key

__all__ = ["Parameter", "canonical_encoding", "compile_key"]
