"""What runs today, beside what could."""
