"""What trains it: the device catalogue, nodes and fabric."""
