"""Teaching predictors of run time and use on a history, offline, and scoring them in public against what happened."""
