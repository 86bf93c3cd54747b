"""The four problems of locks on Redis with real processes: the book's lock beside ours."""
