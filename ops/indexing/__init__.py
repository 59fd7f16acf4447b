"""Rows at places that data tells: gathered, scattered, added up; and places turned into ones."""
