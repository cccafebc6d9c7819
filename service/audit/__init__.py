"""Compares what is cached with the upstream, at one snapshot."""
