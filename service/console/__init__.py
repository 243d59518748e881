"""What the command line shows: answers as tables, progress as a line."""
