"""Layer normalisation and its gradients."""
