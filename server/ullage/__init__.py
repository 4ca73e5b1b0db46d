"""Ullage: a session server for coding agents that keeps every session inside the model's window."""

__version__ = "0.1.0"
