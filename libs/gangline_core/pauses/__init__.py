"""Who stands still, who goes on, and who has room until when."""
