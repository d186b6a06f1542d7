"""Who says yes?"""
