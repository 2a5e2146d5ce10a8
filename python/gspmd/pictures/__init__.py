"""Pictures of shardings: the devices that hold each part of a value."""
