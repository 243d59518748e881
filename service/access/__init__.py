"""Who asks, and what they may: keys, tokens, tenants, limits."""
