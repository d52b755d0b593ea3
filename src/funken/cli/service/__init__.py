"""Commands about jobs that outlive the terminal: the service, jobs in the background, the history.

May import what ``cli`` may.
"""
