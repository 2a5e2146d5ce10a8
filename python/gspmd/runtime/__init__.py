"""Running partitioned modules on the devices of a PJRT client."""
