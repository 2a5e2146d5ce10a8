"""Hardware: links, memory and arithmetic of a device, tori of chips, and what communication costs on them."""
