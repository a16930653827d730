"""The evictor at the size it exists for: real processes, a million files (`make evictor-test`)."""
