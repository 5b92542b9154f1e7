"""How big it should be: proposes sizes for running elastic jobs."""
