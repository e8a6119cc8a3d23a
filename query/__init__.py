"""The trimmed plane: answers a question for a verified asker from what they may read. Holds no source credential."""
