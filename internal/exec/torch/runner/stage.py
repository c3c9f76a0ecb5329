"""What the run is at, for whoever waits for it: a line on stderr that the caller takes out of the output and shows."""
import os

MARK = b"ckptplan is at: "


def at(what):
    os.write(2, MARK + what.encode() + b"\n")


class Steps:
    """Counts a job's training steps."""

    def __init__(self, total):
        self.total, self.done = total, 0

    def next(self, purpose):
        self.done += 1
        at(f"step {self.done} of {self.total} ({purpose})")

    def rest(self, purpose):
        at(f"steps {self.done + 1} to {self.total} ({purpose})")
