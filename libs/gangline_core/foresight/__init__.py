"""What is remembered of earlier jobs, and what that foretells of those that run and wait."""
