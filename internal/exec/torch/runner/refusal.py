"""A job that cannot be run, and why."""


class Refusal(Exception):
    """kind is what the caller branches on; further fields are numbers that belong to the message."""

    def __init__(self, kind, message, **fields):
        super().__init__(message)
        self.fields = {"kind": kind, "message": message, **fields}
