"""Work: taking it in, carrying it about, solving it in processes of its own."""
