"""Which run of blocks each stage holds: stage menus and the partition program."""
