"""The search for annotations: from none, or a few, to shardings of all arguments and constraints where these pay."""
