"""One file a revision, numbered, named by what it does."""
