"""Wheel and sdist: built twice to the same bytes, and installed into an empty environment to see the demo pass."""
