"""How chips are linked: servers and what joins them, one YAML each."""
