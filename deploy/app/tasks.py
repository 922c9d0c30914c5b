"""What the targets of gateway.toml run."""


def hello(payload):
    return f"Hello, {payload['name']}!"
