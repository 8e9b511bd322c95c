"""Parts of pages: pure functions that return component trees."""
