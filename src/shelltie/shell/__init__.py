"""WHAT DOES THIS TEXT DO? Facts about shell text, without opinion. Pure."""
