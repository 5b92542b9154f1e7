"""Why a job stands where it stands, and what it lacks."""
