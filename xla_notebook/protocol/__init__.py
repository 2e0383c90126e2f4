"""What kernel and page say to each other: the messages, defined once, and how session values become them."""
