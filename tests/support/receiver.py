"""What stands behind a gate in tests: it writes down the records, and the barriers between them."""

from __future__ import annotations


class Receiver:
    """A receiver of a gate; what a test is not about leaves no trace."""

    def __init__(self):
        self.told = []

    def process(self, index, block):
        self.told += block.rows()[0]

    def barrier(self, checkpoint):
        self.told.append(f"barrier {checkpoint}")

    def watermark(self, watermark):
        pass

    def watermark_input(self, index, watermark):
        pass

    def idle(self, idle):
        pass

    def end_input(self, index):
        pass

    def finish(self):
        pass
