"""The four problems of locks on Redis, shown with real processes: the book's lock and ours side by side."""
