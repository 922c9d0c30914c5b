"""Measurements, each beside a bare limit measured in the same run; what a dispatcher imports of it is `tasks` alone."""
