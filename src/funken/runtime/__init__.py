"""The engine without I/O: tasks that process blocks, and the driver's half of a job.

From below: ``exchange/`` moves blocks between subtasks, ``flow_control/`` keeps queues short, ``chain/`` runs the operators of
one, ``snapshot/`` takes and restores their state, ``task/`` is the loop of a task, ``driver/`` the job around all tasks;
``messages.py`` is what the last two say to each other. May import ``checkpoint``, ``plan`` and what is below.
"""
