"""How a person's commands reach a running server: a Unix socket that each server has."""
