"""What several tests use: programs, meshes, strategies, runs in other processes. Nothing here is a test."""
