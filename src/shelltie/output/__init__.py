"""WHAT SHOULD BE READ? Bytes as they came, text when somebody reads."""
