"""Processes: commands guarded in a process of their own, memory over months, Python files of the user."""
