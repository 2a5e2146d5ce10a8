"""Second opinions: a program beside what XLA's partitioners make of it, or beside another version of itself."""
