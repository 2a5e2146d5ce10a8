"""What holds of a program without changing it."""
