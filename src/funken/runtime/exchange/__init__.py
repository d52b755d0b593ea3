"""Between subtasks: writers, blocks as bytes, input gates with their watermarks and barriers.

May import ``plan``, ``operators``, ``columnar`` and what is below; of ``runtime`` only its messages.
"""
