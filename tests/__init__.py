"""The test suite; a package, so that its folders cannot be taken for `executors` or `plugins`."""
