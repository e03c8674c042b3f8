"""What can go wrong while reading, each with where, what was expected, what was found and what to do."""

from __future__ import annotations


class RatiometerError(Exception):
    """Root of every error this project raises on purpose; its text is one clear sentence or a short list, fit for a page."""


class ReadError(RatiometerError):
    """A file cannot be read at all.

    Args:
        where: file, and line, row or column where known.
        expected: what a good file has there.
        found: what this file has there.
        remedy: what the user can do about it.
    """

    def __init__(self, where: str, *, expected: str, found: str, remedy: str) -> None:
        """Keep the four parts, and join them into one sentence."""
        self.where, self.expected, self.found, self.remedy = where, expected, found, remedy
        super().__init__(f"{where}: expected {expected}, found {found}. {remedy}")


class UnknownContainerError(RatiometerError):
    """No reader, or more than one, takes the file; carries each reader's objection."""


class UnknownDialectError(RatiometerError):
    """No dialect, or more than one, knows the columns; carries the columns seen and how to map them."""


class TooLargeError(ReadError):
    """The input exceeds a bound that protects the machine; the message names the bound."""


class ShapeError(RatiometerError):
    """Arrays handed to the recorder do not fit together; the message names each shape."""
