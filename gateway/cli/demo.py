"""placeholder"""


def demo() -> None:
    """placeholder"""
