"""Figures: each takes numbers that exist without it and returns them drawn, with a caption that says what they are."""
