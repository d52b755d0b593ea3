"""Random functions out of the traced subset, on columns and in Python: what they give is compared.

May import what the rooms under test may, and ``testing``.
"""
