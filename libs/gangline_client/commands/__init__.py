"""What each verb of the command does; a module is loaded only when its verb is used."""
