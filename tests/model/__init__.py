"""The whole engine against a model of it: random life on a real server, every rule checked after every step."""
