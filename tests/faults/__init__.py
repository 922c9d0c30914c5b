"""The fault suite: real processes and servers, faults of every kind, and a history outside of Redis that is checked.

`python -m tests.faults` runs it whole.
"""
