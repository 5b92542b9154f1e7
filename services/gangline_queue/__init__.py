"""Who goes next: gates, order and the opening of rounds."""
