"""What each command does, apart from how its options are spelt: a module a command, each imported when it is called."""
