"""What is judged at the door: which jobs enter, what can never fit, who may change what of a job later."""
