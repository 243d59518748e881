"""What moves from where to where when a run goes from one plan to another."""
