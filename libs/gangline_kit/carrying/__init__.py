"""What carrying nodes takes, whoever carries them: an agent on its machine, or Kubernetes."""
