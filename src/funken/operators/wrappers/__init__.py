"""Specs around specs: what plan rules put around an operator. They forward the traits of what they hold.

May import ``operators`` and what is below.
"""
