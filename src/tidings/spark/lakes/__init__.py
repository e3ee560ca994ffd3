"""Lakes: events kept for as long as one likes, as Delta tables. Nothing here needs Java."""
