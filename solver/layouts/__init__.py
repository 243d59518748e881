"""What a parallel layout is and when it is legal."""
