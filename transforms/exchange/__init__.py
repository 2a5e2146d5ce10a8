"""Who sends what to whom when a value is held one way and wanted another, and the operations that do it."""
