"""One picture per module: a plan goes in, a drawing comes out."""
