"""The dispatcher: claims jobs, runs them, settles them, and keeps the leases of what it runs."""
