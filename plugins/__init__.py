"""Built-in verifiers and other plugins; each registers through the same hooks as a third party's."""
