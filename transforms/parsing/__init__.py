"""The one door in: what a user gives, text or bytes, becomes a verified MLIR module, or one located error."""
