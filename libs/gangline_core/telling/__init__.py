"""Why a job stands where it stands, what it lacks, and when it may start."""
