"""Time: clocks, durations, watermarks and timers. May import ``state``, ``config`` and what is below."""
