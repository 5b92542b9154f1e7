"""The judge at the door: every change a user asks for passes here, and only here."""
