"""How often something may happen, counted in Redis for all processes together."""
