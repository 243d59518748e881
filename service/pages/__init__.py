"""What people look at: pages rendered on the server, and the pictures on them."""
