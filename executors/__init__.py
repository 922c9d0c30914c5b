"""Built-in executors; each registers through the same hooks as a third party's."""
