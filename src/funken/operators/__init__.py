"""What happens to records: each operator is a spec, which travels in the plan, and a logic, which runs.

This folder has the contract, the context of an operator, and the simple operators; ``process/``, ``window/``, ``join/`` and
``async_io/`` have the others, ``columnar/`` those that work on columns, ``codegen/`` the loops that are generated,
``wrappers/`` the specs around specs. ``traits.py`` is what others may know of an operator. May import
``connectors``, ``columnar``, ``windowing``, ``state``, ``timing``, ``types``, ``metrics`` and what is below.
"""
